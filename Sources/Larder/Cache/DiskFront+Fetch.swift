import Foundation
import LarderFiles

/// What a fetch needs.
extension DiskFront {
    func standing(of key: Key, at now: Timestamp) -> Standing {
        guard let row = disk.readableStore?.knownRow(key, at: now) else { return .missing }
        if row.isFresh(at: now) { return .fresh(MemoryLife(row)) }
        if row.isAbsent { return row.isInForce(at: now) ? .absent : .missing }
        guard row.isUsable(at: now) else { return .missing }
        return .stale(expires: row.life.expires, isAnswerable: !row.mustRevalidate)
    }

    var isProvisional: Bool { disk.store.provisional.isSet }

    func look(at keys: [Key]) async {
        await disk.store.lane.run {
            let now = disk.now
            for key in keys { _ = disk.store.settle(key, at: now) }
        }
    }

    func isCurrent(_ usable: Usable<Value>, _ key: Key) -> Bool {
        usable.row.map { disk.store.isCurrent($0, key) } ?? false
    }

    func countMiss() {
        counts.withLock { $0.misses += 1 }
        attached?.memory.countMiss()
    }

    func usable(_ key: Key) async -> Usable<Value>? {
        await disk.store.lane.run { usableOnDisk(key) }
    }

    private func usableOnDisk(_ key: Key) -> Usable<Value>? {
        guard let (row, value) = read(key, at: disk.now, staleToo: true) else { return nil }
        return Usable(
            value: value, metadata: row.metadata, stored: row.stored, life: MemoryLife(row),
            isAnswerable: !row.mustRevalidate, source: .disk, row: row)
    }

    func keep(_ value: Value, _ key: Key, _ terms: FetchTerms, from flight: Flight) async {
        await disk.store.lane.run { keepOnDisk(value, key, terms, from: flight) }
    }

    private func keepOnDisk(_ value: Value, _ key: Key, _ terms: FetchTerms, from flight: Flight) {
        do throws(CacheError) {
            let data = try encode(value)
            let promotion = promotion(of: value, key.text, size: data.count)
            store(data, key, terms, isAbsent: false, promotion, from: flight)
        } catch {
            disk.store.report(error, of: key)
        }
    }

    func keepAbsence(_ key: Key, _ terms: FetchTerms, from flight: Flight) async {
        await disk.store.lane.run { store(Data(), key, terms, isAbsent: true, nil, from: flight) }
    }

    /// What cannot be stored has been reported by the store; the call goes on without.
    private func store(
        _ data: Data, _ key: Key, _ terms: FetchTerms, isAbsent: Bool, _ promotion: Promotion?, from flight: Flight
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
        try? data.withBytes { bytes throws(CacheError) in
            try store.set(
                bytes, for: key, life: terms.life, attachments: attachments, at: terms.now, .ifFlying(flight),
                promotion: promotion)
        }
    }

    func renew(_ usable: Usable<Value>, _ key: Key, _ terms: FetchTerms, from flight: Flight) async {
        guard let row = usable.row else { return }
        var terms = terms
        if terms.tags.isEmpty { terms.tags = row.tags }
        terms.mustRevalidate = terms.mustRevalidate ?? row.mustRevalidate
        if Set(terms.tags) == Set(row.tags), terms.mustRevalidate == row.mustRevalidate {
            let isRenewed = await disk.store.lane.run { [terms] in
                renewOnDisk(usable.value, row, key, terms, from: flight)
            }
            if isRenewed { return }
        }
        // Evicted meanwhile, or to be kept with what only a new file can say.
        terms.metadata = terms.metadata ?? usable.metadata
        await keep(usable.value, key, terms, from: flight)
    }

    private func renewOnDisk(
        _ value: Value, _ row: Row, _ key: Key, _ terms: FetchTerms, from flight: Flight
    ) -> Bool {
        guard let store = try? disk.openStore else { return true }
        let update = Attachments.Update(metadata: terms.metadata ?? row.metadata, keptStale: terms.keptStale)
        var life = terms.life
        // A life until a date does not say when it began; one that reading does not prolong can be given a length.
        if life.ttl == Life.unlimited, !life.isForever, !store.settings.slidingExpiry {
            life.ttl = life.expires.millisecondsSince(terms.now)
        }
        do {
            guard try store.renew(row, key, life, update, for: flight) else { return false }
        } catch {
            return true
        }
        if let promotion = promotion(of: value, key.text, size: row.size) { store.index.promote(row, key, promotion) }
        return true
    }

    func discard(_ key: Key, from flight: Flight) async {
        await disk.store.lane.run { _ = try? disk.openStore.remove(key, at: disk.now, for: flight) }
    }

    func tell(_ failure: CacheError, of keys: [Key]) {
        disk.store.events.post(CacheEvent(.fetchFailed, keys: keys.map(\.text), in: disk.space, error: failure))
    }
}
