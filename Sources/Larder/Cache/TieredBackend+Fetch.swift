import Foundation
import LarderFiles

/// What a fetch needs.
extension TieredBackend {
    func standing(of key: Key, at now: Timestamp) -> Freshness {
        guard let entry = disk.readableStore?.recovery.knownEntry(key, at: now) else { return .missing }
        if entry.isFresh(at: now) { return .fresh(MemoryLife(entry)) }
        if entry.isAbsent { return entry.isInForce(at: now) ? .absent : .missing }
        guard entry.isUsable(at: now) else { return .missing }
        return .stale(expires: entry.life.expires, isAnswerable: !entry.mustRevalidate)
    }

    var isProvisional: Bool { disk.store.provisional.isSet }

    func look(at keys: [Key]) async {
        await disk.store.io.run {
            let now = disk.now
            for key in keys { _ = disk.store.recovery.settle(key, at: now) }
        }
    }

    func isCurrent(_ usable: StoredValue<Value>, _ key: Key) -> Bool {
        usable.entry.map { disk.store.index.isCurrent($0, key) } ?? false
    }

    func countMiss() {
        counts.withLock { $0.misses += 1 }
        attached?.memory.countMiss()
    }

    func usable(_ key: Key) async -> StoredValue<Value>? {
        await disk.store.io.run { usableOnDisk(key) }
    }

    private func usableOnDisk(_ key: Key) -> StoredValue<Value>? {
        guard let (entry, value) = read(key, at: disk.now, orStale: true) else { return nil }
        return StoredValue(
            value: value, metadata: entry.metadata, stored: entry.stored, life: MemoryLife(entry),
            isAnswerable: !entry.mustRevalidate, source: .disk, entry: entry)
    }

    func keep(_ value: Value, _ key: Key, _ terms: StoreOptions, from flight: Flight) async {
        await disk.store.io.run { keepOnDisk(value, key, terms, from: flight) }
    }

    private func keepOnDisk(_ value: Value, _ key: Key, _ terms: StoreOptions, from flight: Flight) {
        do throws(CacheError) {
            let data = try encode(value)
            let promotion = promotion(of: value, key.text, size: data.count)
            store(data, key, terms, isAbsent: false, promotion, from: flight)
        } catch {
            disk.store.report(error, of: key)
        }
    }

    func keepAbsence(_ key: Key, _ terms: StoreOptions, from flight: Flight) async {
        await disk.store.io.run { store(Data(), key, terms, isAbsent: true, nil, from: flight) }
    }

    /// What cannot be stored has been reported by the store; the call goes on without.
    private func store(
        _ data: Data, _ key: Key, _ terms: StoreOptions, isAbsent: Bool, _ promotion: Promotion?, from flight: Flight
    ) {
        let traits = Attachments.Traits(
            namespace: disk.space, tags: terms.tags, keptStale: isAbsent ? 0 : terms.keptStale, isAbsent: isAbsent,
            mustRevalidate: terms.mustRevalidate ?? false)
        let attachments = disk.store.pool.attachments(traits, metadata: terms.metadata ?? [:])
        guard let store = try? disk.openStore else { return }
        do throws(CacheError) {
            for text in [key.text] + terms.tags.map(\.text) { _ = try disk.checked(text) }
        } catch {
            return store.report(error, of: key)
        }
        _ = try? data.withBytes { bytes throws(CacheError) in
            try store.set(
                bytes,
                SetRequest(
                    key: key, life: terms.life, attachments: attachments, now: terms.now,
                    condition: .ifPermitted(flights.permit(flight)), promotion: promotion))
        }
    }

    func renew(_ usable: StoredValue<Value>, _ key: Key, _ terms: StoreOptions, from flight: Flight) async {
        guard let entry = usable.entry else { return }
        var terms = terms
        if terms.tags.isEmpty { terms.tags = entry.tags }
        terms.mustRevalidate = terms.mustRevalidate ?? entry.mustRevalidate
        if Set(terms.tags) == Set(entry.tags), terms.mustRevalidate == entry.mustRevalidate {
            let isRenewed = await disk.store.io.run { [terms] in
                renewOnDisk(usable.value, entry, key, terms, from: flight)
            }
            if isRenewed { return }
        }
        // Evicted meanwhile, or to be kept with what only a new file can say.
        terms.metadata = terms.metadata ?? usable.metadata
        await keep(usable.value, key, terms, from: flight)
    }

    private func renewOnDisk(
        _ value: Value, _ entry: IndexEntry, _ key: Key, _ terms: StoreOptions, from flight: Flight
    ) -> Bool {
        guard let store = try? disk.openStore else { return true }
        let update = Attachments.Update(metadata: terms.metadata ?? entry.metadata, keptStale: terms.keptStale)
        var life = terms.life
        // A life until a date does not say when it began; one that reading does not prolong can be given a length.
        if life.ttl == Life.unlimited, !life.isForever, !store.settings.slidingExpiry {
            life.ttl = life.expires.millisecondsSince(terms.now)
        }
        do {
            guard try store.renew(entry, key, .init(life: life, update: update), with: flights.permit(flight)) else {
                return false
            }
        } catch {
            return true
        }
        if let promotion = promotion(of: value, key.text, size: entry.size) {
            store.index.promote(entry, key, promotion)
        }
        return true
    }

    func discard(_ key: Key, from flight: Flight) async {
        await disk.store.io.run { _ = try? disk.openStore.remove(key, at: disk.now, permit: flights.permit(flight)) }
    }

    func tell(_ failure: CacheError, of keys: [Key]) {
        disk.store.events.post(CacheEvent(.fetchFailed, keys: keys.map(\.text), in: disk.space, error: failure))
    }
}
