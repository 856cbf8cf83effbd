import Foundation
import LarderFiles

/// The part of the backend that fetches use.
extension TieredBackend {
    func freshness(of key: Key, at now: Timestamp) -> Freshness {
        guard let entry = disk.readableStore?.recovery.knownEntry(key, at: now) else { return .missing }
        if entry.isFresh(at: now) { return .fresh(MemoryLife(entry)) }
        if entry.isAbsent { return entry.isInForce(at: now) ? .absent : .missing }
        guard entry.isUsable(at: now) else { return .missing }
        return .stale(expires: entry.life.expires, isAnswerable: !entry.mustRevalidate)
    }

    var isProvisional: Bool { disk.store.provisional.isSet }

    func settle(_ keys: [Key]) async {
        await disk.store.io.run {
            let now = disk.now
            for key in keys { _ = disk.store.recovery.settle(key, at: now) }
        }
    }

    func countMiss() {
        counts.update { $0.misses += 1 }
        tier?.memory.countMiss()
    }

    func storedValue(for key: Key) async -> StoredValue<Value>? {
        await disk.store.io.run {
            guard let (entry, value) = read(key, at: disk.now, orStale: true) else { return nil }
            return StoredValue(
                value: value, metadata: entry.metadata, stored: entry.stored, life: MemoryLife(entry),
                isAnswerable: !entry.mustRevalidate, source: .disk, entry: entry)
        }
    }

    func isCurrent(_ stored: StoredValue<Value>, _ key: Key) -> Bool {
        stored.entry.map { disk.store.index.isCurrent($0, key) } ?? false
    }

    func keep(_ value: Value, _ key: Key, _ options: StoreOptions, by flight: Flight) async {
        await disk.store.io.run {
            do throws(CacheError) {
                let data = try encode(value)
                let promotion = promotion(of: value, key.text, size: data.count)
                store(Content(data: data, promotion: promotion), key, options, by: flight)
            } catch {
                disk.store.report(error, of: key)
            }
        }
    }

    func keepAbsence(_ key: Key, _ options: StoreOptions, by flight: Flight) async {
        await disk.store.io.run { store(Content(), key, options, by: flight) }
    }

    /// A payload to store; without one: the knowledge that there is no value.
    private struct Content {
        var data: Data?
        var promotion: Promotion?
    }

    /// The store reports a failure; the call that fetches goes on without.
    private func store(_ content: Content, _ key: Key, _ options: StoreOptions, by flight: Flight) {
        let isAbsent = content.data == nil
        let traits = Attachments.Traits(
            namespace: disk.keyNamespace, tags: options.tags, keptStale: isAbsent ? 0 : options.keptStale,
            isAbsent: isAbsent,
            mustRevalidate: options.mustRevalidate ?? false, coding: isAbsent ? nil : coder.coding)
        let attachments = disk.store.pool.attachments(traits, metadata: options.metadata ?? [:])
        guard let store = try? disk.openStore else { return }
        do throws(CacheError) {
            for text in [key.text] + options.tags.map(\.text) { _ = try disk.checked(text) }
        } catch {
            return store.report(error, of: key)
        }
        let request = SetRequest(
            key: key, life: options.life, attachments: attachments, now: options.now,
            condition: .ifPermitted(flights.permit(flight)), promotion: content.promotion)
        _ = try? (content.data ?? Data()).withBytes { bytes throws(CacheError) in
            try store.set(bytes, request)
        }
    }

    func renew(_ stored: StoredValue<Value>, _ key: Key, _ options: StoreOptions, by flight: Flight) async {
        guard let entry = stored.entry else { return }
        var options = options
        if options.tags.isEmpty { options.tags = entry.tags }
        options.mustRevalidate = options.mustRevalidate ?? entry.mustRevalidate
        if Set(options.tags) == Set(entry.tags), options.mustRevalidate == entry.mustRevalidate {
            let isRenewed = await disk.store.io.run { [options] in
                renewLife(of: entry, stored.value, key, options, by: flight)
            }
            if isRenewed { return }
        }
        // The entry was evicted in the meantime, or the change needs a new file.
        options.metadata = options.metadata ?? stored.metadata
        await keep(stored.value, key, options, by: flight)
    }

    /// Returns false when the entry is gone.
    private func renewLife(
        of entry: IndexEntry, _ value: Value, _ key: Key, _ options: StoreOptions, by flight: Flight
    ) -> Bool {
        guard let store = try? disk.openStore else { return true }
        let update = Attachments.Update(metadata: options.metadata ?? entry.metadata, keptStale: options.keptStale)
        var life = options.life
        // A life until a date does not record when it began. Unless reading prolongs lives, a length can say so.
        if life.ttl == Life.unlimited, !life.isForever, !store.settings.slidingExpiry {
            life.ttl = life.expires.millisecondsSince(options.now)
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

    func remove(_ key: Key, by flight: Flight) async {
        await disk.store.io.run { _ = try? disk.openStore.remove(key, at: disk.now, permit: flights.permit(flight)) }
    }

    func report(_ failure: CacheError, of keys: [Key]) {
        disk.store.events.post(CacheEvent(.fetchFailed, keys: keys.map(\.text), in: disk.keyNamespace, error: failure))
    }
}
