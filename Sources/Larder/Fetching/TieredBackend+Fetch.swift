import LarderFiles
import LarderFoundation

/// The part of the backend that fetches use.
extension TieredBackend {
    func freshness(of key: Key, at now: Timestamp) -> Freshness {
        if let memory = tier?.memory, memory.isUnstored(key.text), let found = memory.kept(key.text, at: now) {
            if found.value == nil { return .absent }
            if found.life.isFresh(at: now) { return .fresh(found.life, stored: found.extra.stored ?? found.life.begun) }
            return .stale(expires: found.life.expires, isAnswerable: !found.extra.mustRevalidate)
        }
        guard let entry = disk.readableStore?.recovery.knownEntry(key, at: now), !isUndecodable(entry, key) else {
            return .missing
        }
        if entry.isFresh(at: now) { return .fresh(MemoryLife(entry), stored: entry.stored) }
        if entry.isAbsent { return entry.isInForce(at: now) ? .absent : .missing }
        guard entry.isUsable(at: now) else { return .missing }
        return .stale(expires: entry.life.expires, isAnswerable: !entry.mustRevalidate)
    }

    var slides: Bool { disk.store.settings.slidingExpiry }

    var isProvisional: Bool { disk.store.provisional.isSet }

    func settle(_ keys: [Key]) async {
        await disk.store.io.run {
            let now = disk.now
            for key in keys { _ = disk.store.recovery.settle(key, at: now) }
        }
    }

    func countMiss(of key: Key, isCountedOnDisk: Bool) {
        counts.update { $0.misses += 1 }
        countMissInMemory()
        if !isCountedOnDisk { disk.store.index.withShard(of: key) { $0.misses += 1 } }
    }

    func countMissInMemory() {
        tier?.memory.countMiss()
    }

    func countHit(_ found: Lookup<Value>) {
        if found.source == .memory { return tier?.memory.countHit(isStale: found.isStale) ?? () }
        counts.update { counts in
            counts.hits += 1
            if found.isStale { counts.fetches.staleAnswers += 1 }
        }
    }

    func takeBackMiss(of key: Key, _ found: Lookup<Value>, isCountedOnDisk: Bool) {
        counts.update { $0.misses -= 1 }
        if found.source == .memory { tier?.memory.takeBackMiss() }
        if !isCountedOnDisk { disk.store.index.withShard(of: key) { $0.misses -= 1 } }
    }

    func storedValue(for key: Key) async -> StoredValue<Value>? {
        if let stored = storedInMemory(key) { return stored }
        guard let found = await read(key, orStale: true) else { return nil }
        // It came into memory meanwhile.
        guard let entry = found.entry else { return storedInMemory(key) }
        return StoredValue(found.value, entry, from: .disk)
    }

    /// Returns a value in memory with its entry on disk, unless that changes meanwhile.
    func storedInMemory(_ key: Key) -> StoredValue<Value>? {
        let now = disk.now
        guard let memory = tier?.memory else { return nil }
        let entry = disk.readableStore?.recovery.knownEntry(key, at: now)
        guard let (kept, life, extra) = memory.kept(key.text, at: now), let value = kept else { return nil }
        if extra.isUnstored {
            return StoredValue(
                value: value, metadata: extra.metadata, stored: extra.stored ?? life.begun, life: life,
                isAnswerable: !extra.mustRevalidate, source: .memory, tags: extra.tags,
                keptStale: extra.keptStale, toDisk: extra.toDisk)
        }
        guard let entry, entry.isUsable(at: now), disk.store.index.isCurrent(entry, key) else { return nil }
        return StoredValue(value, entry, from: .memory)
    }

    func isCurrent(_ stored: StoredValue<Value>, _ key: Key) -> Bool {
        if let entry = stored.entry { return disk.store.index.isCurrent(entry, key) }
        guard let kept = tier?.memory.kept(key.text, at: disk.now) else { return false }
        return kept.extra.isUnstored && (kept.extra.stored ?? kept.life.begun) == stored.stored
    }

    func keep(_ value: Value, _ key: Key, _ options: StoreOptions, by flight: Flight) async {
        await disk.store.io.run {
            if !options.toDisk {
                return keepInMemory(value, key, size: (try? encode(value).data.count) ?? 0, options, by: flight)
            }
            var size = 0
            do throws(CacheError) {
                let encoded = try encode(value)
                size = encoded.data.count
                let promotion = promotion(of: value, key.text, size: size)
                let content = Content(data: encoded.data, coding: encoded.coding, promotion: promotion)
                if store(content, key, options, by: flight) { return }
            } catch {
                disk.store.report(error, of: key)
            }
            keepInMemory(value, key, size: size, options, by: flight)
        }
    }

    func keepAbsence(_ key: Key, _ options: StoreOptions, by flight: Flight) async {
        await disk.store.io.run {
            if store(Content(), key, options, by: flight) { return }
            removeSuperseded(key, by: flight)
            insertAlone(key, by: flight) { memory in
                let life = MemoryLife(begun: options.now, expires: options.life.expires)
                return memory.insertAbsence(key.text, life: life, MemoryExtra(tags: options.allTags, isUnstored: true))
                    .demand
            }
        }
    }

    /// A payload to store; without one: the knowledge that there is no value.
    private struct Content {
        var data: Data?
        var coding: Coding?
        var promotion: Promotion?
    }

    /// Returns false when the disk cannot store it. The store reports a failure; the call that fetches goes on without.
    private func store(_ content: Content, _ key: Key, _ options: StoreOptions, by flight: Flight) -> Bool {
        let isAbsent = content.data == nil
        let tags = options.allTags
        let traits = Attachments.Traits(
            namespace: disk.keyNamespace, tags: tags, keptStale: isAbsent ? 0 : options.keptStale, isAbsent: isAbsent,
            mustRevalidate: options.mustRevalidate ?? false, coding: content.coding)
        let attachments = disk.store.pool.attachments(
            traits, metadata: options.metadata ?? [:], unknown: options.unknown)
        guard let store = try? disk.openStore else { return false }
        do throws(CacheError) {
            for text in [key.text] + tags.map(\.text) { _ = try disk.checked(text) }
        } catch {
            store.report(error, of: key)
            return false
        }
        let request = SetRequest(
            key: key, life: options.life, attachments: attachments, now: options.now,
            condition: .ifPermitted(flights.permit(flight)), promotion: content.promotion)
        let isDone: Bool? = try? (content.data ?? Data()).withBytes { bytes throws(CacheError) in
            _ = try store.set(bytes, request)
            return true
        }
        return isDone ?? false
    }

    /// Keeps a value that the disk cannot or may not store in memory alone, for its life.
    private func keepInMemory(_ value: Value, _ key: Key, size: Int, _ options: StoreOptions, by flight: Flight) {
        if options.toDisk { removeSuperseded(key, by: flight) }
        let cost = cost.map { $0(value, size) } ?? size
        let extra = MemoryExtra(
            metadata: options.metadata ?? [:], stored: options.now, keptStale: options.keptStale,
            mustRevalidate: options.mustRevalidate ?? false, tags: options.allTags, isUnstored: true,
            toDisk: options.toDisk)
        let life = MemoryLife(begun: options.now, expires: options.life.expires)
        let insert: (MemoryCache<String, Value>) -> ReleaseDemand = { memory in
            memory.insertKept(value, forKey: key.text, life: life, cost: cost, extra).demand
        }
        guard !options.toDisk, let store = disk.readableStore, mayBeOnDisk(key, store) else {
            return insertAlone(key, by: flight, insert)
        }
        // In one step: nothing of the key stays on disk. Where that fails, the store has reported it.
        var demand: ReleaseDemand?
        _ = try? store.remove(key, at: options.now, permit: flights.permit(flight)) {
            guard let memory = tier?.memory else { return }
            demand = inPlaceOfNothing(key, store) { flights.whileRegistered(flight, for: key) { insert(memory) } }
        }
        finish(demand, key)
    }

    private func mayBeOnDisk(_ key: Key, _ store: Store) -> Bool {
        store.index.load(key)
        return store.index.entry(key) != nil || store.provisional.isSet || store.disk.hasLeftFiles
    }

    /// Releases what a change of the memory has displaced, and tells those who watch the key; nil: nothing has changed.
    func finish(_ demand: ReleaseDemand?, _ key: Key) {
        guard let demand else { return }
        tier?.memory.release(demand)
        watchers.note(key.text)
    }

    /// Removes the fresh value on disk that a newer one replaces, though that cannot be stored: it would come back.
    private func removeSuperseded(_ key: Key, by flight: Flight) {
        let now = disk.now
        guard let store = disk.readableStore, store.recovery.knownEntry(key, at: now)?.isInForce(at: now) == true else {
            return
        }
        _ = try? store.remove(key, at: now, permit: flights.permit(flight))
    }

    /// Changes the memory without the disk, unless the key has changed since the flight began.
    private func insertAlone(
        _ key: Key, by flight: Flight, _ insert: (MemoryCache<String, Value>) -> ReleaseDemand
    ) {
        guard let memory = tier?.memory else { return }
        func insertIfRegistered() -> ReleaseDemand? {
            flights.whileRegistered(flight, for: key) { insert(memory) }
        }
        // With the key's stripe held, a change of the key is either published, and the flight no longer registered; or
        // yet to come, and will drop the value.
        let demand: ReleaseDemand?
        do {
            demand = try disk.store.disk.run(shard: key.shard) { _ throws(CacheError) in
                // Others change the directory, and this cache hears nothing of it any more.
                if disk.isClosed { return nil }
                // Other caches on the directory may have an older one, in memory alone as well.
                disk.store.index.invalidate(key)
                return insertIfRegistered()
            }
        } catch {
            // A directory that is closed altogether does not change.
            demand = insertIfRegistered()
        }
        finish(demand, key)
    }

    func renew(_ stored: StoredValue<Value>, _ key: Key, _ options: StoreOptions, by flight: Flight) async {
        var options = options
        if options.tags.isEmpty { options.tags = stored.tags }
        options.toDisk = stored.toDisk
        options.metadata = options.metadata ?? stored.metadata
        options.mustRevalidate = options.mustRevalidate ?? !stored.isAnswerable
        // A change of these needs a new file: only there are they safe when the index is lost.
        if let entry = stored.entry, Set(options.allTags) == Set(entry.tags),
            options.mustRevalidate == entry.mustRevalidate, options.metadata == entry.metadata
        {
            // So does the beginning of a life that says only when it ends.
            let marksBeginning = options.marksBeginning && (slides || options.life.isForever)
            let isRenewed = await disk.store.io.run { [options] in
                if marksBeginning, storeAgain(entry, stored, key, options, by: flight) == true { return true }
                return renewLife(of: entry, stored, key, options, by: flight)
            }
            if isRenewed { return }
        }
        if let entry = stored.entry {
            let isThere = await disk.store.io.run { [options] in rewrite(entry, stored, key, options, by: flight) }
            if isThere { return }
        }
        // The entry was evicted in the meantime, or cannot be read.
        await keep(stored.value, key, options, by: flight)
    }

    /// Stores an entry again, or keeps its value in memory alone. False when the entry has been removed.
    private func rewrite(
        _ entry: IndexEntry, _ stored: StoredValue<Value>, _ key: Key, _ options: StoreOptions, by flight: Flight
    ) -> Bool {
        guard let isStored = storeAgain(entry, stored, key, options, by: flight) else { return false }
        if !isStored { keepInMemory(stored.value, key, size: entry.size, options, by: flight) }
        return true
    }

    /// Stores the payload of an entry again, byte by byte, with its coding; false when the disk cannot, nil when the
    /// entry has been removed.
    private func storeAgain(
        _ entry: IndexEntry, _ stored: StoredValue<Value>, _ key: Key, _ options: StoreOptions, by flight: Flight
    ) -> Bool? {
        let found = disk.readableStore?.read(key, at: disk.now, orStale: true) { directory, current in
            directory.payload(of: current).then { .value((entry: current, data: $0)) }
        }
        guard let found, found.entry.isSameValue(as: entry) else { return nil }
        let promotion = promotion(of: stored.value, key.text, size: found.data.count)
        return store(
            Content(data: found.data, coding: entry.coding, promotion: promotion), key, options, by: flight)
    }

    /// Returns false when the entry has been removed.
    private func renewLife(
        of entry: IndexEntry, _ stored: StoredValue<Value>, _ key: Key, _ options: StoreOptions, by flight: Flight
    ) -> Bool {
        let update = Attachments.Update(metadata: entry.metadata, keptStale: options.keptStale)
        var life = options.life
        do {
            let store = try disk.openStore
            // A life until a date does not record when it began. Unless reading prolongs lives, a length can say so.
            if life.ttl == Life.unlimited, !life.isForever, !store.settings.slidingExpiry {
                life.ttl = life.expires.millisecondsSince(options.now)
            }
            guard try store.renew(entry, key, .init(life: life, update: update), with: flights.permit(flight)) else {
                return false
            }
        } catch {
            keepInMemory(stored.value, key, size: entry.size, options, by: flight)
            return true
        }
        if let promotion = promotion(of: stored.value, key.text, size: entry.size) {
            promote(promotion, entry, key)
        }
        return true
    }

    func remove(_ key: Key, by flight: Flight) async {
        await disk.store.io.run {
            do {
                try disk.openStore.remove(key, at: disk.now, permit: flights.permit(flight))
            } catch {
                insertAlone(key, by: flight) { $0.discardKept(key.text).demand }
            }
        }
    }

    func report(_ failure: CacheError, of keys: [Key]) {
        disk.store.events.post(CacheEvent(.fetchFailed, keys: keys.map(\.text), in: disk.keyNamespace, error: failure))
    }
}

extension StoredValue {
    init(_ value: Value, _ entry: IndexEntry, from source: ValueSource) {
        self.init(
            value: value, metadata: entry.metadata, stored: entry.stored, life: MemoryLife(entry),
            isAnswerable: !entry.mustRevalidate, source: source, tags: entry.tags,
            keptStale: entry.attachments?.traits.keptStale ?? 0, entry: entry)
    }
}
