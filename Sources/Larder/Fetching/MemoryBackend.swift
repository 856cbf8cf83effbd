import LarderFiles

/// Memory alone. Beside the values it keeps only what fetches need.
struct MemoryBackend<Value: Sendable>: CacheBackend {
    let memory: MemoryCache<String, Value>
    let watchers: KeyWatchers
    let events: EventCenter
    let flights = Flights()
    let counts = BackendCounters()
    let defaults: CacheDefaults
    let readEvents: ReadEvents?

    init(
        _ memory: MemoryCache<String, Value>, watchers: KeyWatchers, events: EventCenter, defaults: CacheDefaults,
        reader: ReadReporting?
    ) {
        self.memory = memory
        self.watchers = watchers
        self.events = events
        self.defaults = defaults
        readEvents = reader.map { ReadEvents(center: events, reader: $0, namespace: .none) }
    }

    var clock: any Clock { memory.time.clock }
    var slides: Bool { memory.slides }

    func key(_ text: String) -> Key { Key(text) }

    func follow() {}

    func findInMemory(_ text: String) -> Lookup<Value>? {
        let now = clock.now
        return memory.findEntry(text, at: now).map {
            Lookup($0.value, from: .memory, life: $0.life, metadata: $0.metadata, at: now)
        }
    }

    func findStaleInMemory(_ text: String, _ windows: StaleWindows) -> Lookup<Value>? {
        memory.useStale(text, at: clock.now, windows).map {
            Lookup($0.value, from: .memory, life: $0.life, metadata: $0.metadata, at: clock.now, isStale: true)
        }
    }

    func lookupOnDisk(_ key: Key) async -> Lookup<Value>? {
        counts.update { $0.misses += 1 }
        return nil
    }

    func lookupsOnDisk(_ keys: [Key]) async -> [Lookup<Value>?] { keys.map { _ in nil } }

    func countMiss(of key: Key, isCountedOnDisk: Bool) {
        counts.update { $0.misses += 1 }
        countMissInMemory()
    }

    func countMissInMemory() {
        memory.countMiss()
    }

    func countHit(_ found: Lookup<Value>) {
        memory.countHit(isStale: found.isStale)
    }

    func takeBackMiss(of key: Key, _ found: Lookup<Value>, isCountedOnDisk: Bool) {
        counts.update { $0.misses -= 1 }
        memory.takeBackMiss()
    }

    // Values change under the lock of the flights, so that no flight stores one in between, and are released after it.

    func set(_ values: [(key: String, value: Value)], _ options: SetOptions) async {
        for (text, value) in values {
            let cost = memory.costOfValue?(value) ?? 0
            guard let life = MemoryLife(options.ttl ?? .default, from: clock.now, default: defaultTTL) else {
                _ = await remove(text)
                continue
            }
            let extra = extra(options, after: life.expires)
            let gone = flights.invalidating(key(text)) {
                memory.insertKept(value, forKey: text, life: life, cost: cost, extra)
            }
            finish(gone.demand, text)
        }
    }

    /// Releases what a change has displaced, and tells those who watch the key.
    private func finish(_ demand: ReleaseDemand, _ text: String) {
        memory.release(demand)
        watchers.note(text)
    }

    private func extra(_ options: SetOptions, after expires: Timestamp) -> MemoryExtra {
        MemoryExtra(
            metadata: options.metadata, keptStale: defaults.keptStale(options.keepStale, after: expires),
            tags: options.tags.map { key($0) })
    }

    func current(_ key: Key) async -> CurrentValue<Value> {
        guard let stored = await storedValue(for: key), stored.life.isFresh(at: clock.now) else {
            return CurrentValue()
        }
        return CurrentValue(stored: stored)
    }

    func replace(
        _ current: CurrentValue<Value>, with value: Value?, _ options: SetOptions, _ watch: Watch
    ) async -> Bool {
        let text = watch.key.text
        let newLife = MemoryLife(options.ttl ?? .default, from: clock.now, default: defaultTTL)
        let keepsLife = options.ttl == nil && current.stored != nil
        guard let value, keepsLife || newLife != nil else {
            let gone = flights.ifUnchanged(watch) { memory.discardKept(text) }
            if let gone { finish(gone.demand, text) }
            return gone != nil
        }
        let cost = memory.costOfValue?(value) ?? 0
        let gone = flights.ifUnchanged(watch) {
            // A read may have prolonged the life meanwhile.
            var kept = keepsLife ? memory.kept(text, at: clock.now)?.life ?? current.stored?.life : nil
            if !memory.slides { kept = kept.map { MemoryLife(begun: clock.now, expires: $0.expires) } }
            let life = kept ?? newLife ?? MemoryLife(begun: clock.now, expires: clock.now)
            var extra = extra(options, after: life.expires)
            if let old = current.stored {
                extra = MemoryExtra(
                    metadata: old.metadata, stored: clock.now, keptStale: old.keptStale,
                    mustRevalidate: !old.isAnswerable, tags: old.tags)
            }
            return memory.insertKept(value, forKey: text, life: life, cost: cost, extra)
        }
        if let gone { finish(gone.demand, text) }
        return gone != nil
    }

    func remove(_ text: String) async -> Bool {
        let gone = flights.invalidating(key(text)) { memory.discardKept(text) }
        finish(gone.demand, text)
        return gone.wasFresh
    }

    func removeAll() async {
        let demand = flights.invalidatingAll { memory.removeAllKept() }
        memory.release(demand)
        watchers.invalidateAll()
    }

    func expire(_ text: String) async -> Bool {
        let gone = flights.invalidating(key(text)) { memory.expireKept(text) }
        finish(gone.demand, text)
        if gone.wasFresh { events.post(CacheEvent(.invalidated, keys: [text])) }
        return gone.wasFresh
    }

    func expireAll() async {
        let demand = flights.invalidatingAll { memory.expireAllKept() }
        memory.release(demand)
        watchers.invalidateAll()
        events.post(CacheEvent(.invalidated))
    }

    func setTimeToLive(_ ttl: TimeToLive, _ text: String) async -> Bool {
        if MemoryLife(ttl, from: clock.now, default: defaultTTL) == nil { return await remove(text) }
        return flights.noting(key(text)) { memory.setTimeToLive(ttl, forKey: text) }
    }

    func removeAll(tagged tag: String) async {
        clear(key(tag)) { memory.removeAllKept(tagged: $0) }
    }

    func expireAll(tagged tag: String) async {
        clear(key(tag)) { memory.expireAllKept(tagged: $0) }
        events.post(CacheEvent(.invalidated, tag: tag))
    }

    /// Removes the flights that were given a value with the tag, too, and those that bring one.
    private func clear(_ tag: Key, _ change: (Key) -> (keys: Set<String>, demand: ReleaseDemand)) {
        let demand = flights.clearing(tag) {
            let gone = change(tag)
            return (gone.keys, gone.demand)
        }
        memory.release(demand)
        watchers.invalidateAll()
    }

    var isProvisional: Bool { false }

    func settle(_ keys: [Key]) async {}

    func freshness(of key: Key, at now: Timestamp) -> Freshness {
        guard let found = memory.kept(key.text, at: now) else { return .missing }
        if found.value == nil { return .absent }
        if found.life.isFresh(at: now) { return .fresh(found.life, stored: found.extra.stored ?? found.life.begun) }
        return .stale(expires: found.life.expires, isAnswerable: !found.extra.mustRevalidate)
    }

    func storedValue(for key: Key) async -> StoredValue<Value>? {
        guard let found = memory.kept(key.text, at: clock.now), let value = found.value else { return nil }
        return StoredValue(
            value: value, metadata: found.extra.metadata, stored: found.extra.stored ?? found.life.begun,
            life: found.life, isAnswerable: !found.extra.mustRevalidate, source: .memory, tags: found.extra.tags,
            keptStale: found.extra.keptStale)
    }

    /// Every change but the removal of a tag removes the flights for the key: one that is still registered has the
    /// current value.
    func isCurrent(_ stored: StoredValue<Value>, _ key: Key) -> Bool {
        memory.kept(key.text, at: clock.now)?.value != nil
    }

    func keep(_ value: Value, _ key: Key, _ options: StoreOptions, by flight: Flight) async {
        insert(value, key, options, stored: options.now, by: flight)
    }

    private func insert(_ value: Value, _ key: Key, _ options: StoreOptions, stored: Timestamp, by flight: Flight) {
        let cost = memory.costOfValue?(value) ?? 0
        let extra = MemoryExtra(
            metadata: options.metadata ?? [:], stored: stored, keptStale: options.keptStale,
            mustRevalidate: options.mustRevalidate ?? false, tags: options.allTags)
        let life = MemoryLife(options.life, from: options.now)
        let gone = flights.whileRegistered(flight, for: key) {
            memory.insertKept(value, forKey: key.text, life: life, cost: cost, extra)
        }
        if let gone { finish(gone.demand, key.text) }
    }

    /// In memory the payload is the value itself: it is inserted again.
    func renew(_ stored: StoredValue<Value>, _ key: Key, _ options: StoreOptions, by flight: Flight) async {
        var options = options
        options.metadata = options.metadata ?? stored.metadata
        options.mustRevalidate = options.mustRevalidate ?? !stored.isAnswerable
        if options.tags.isEmpty { options.tags = stored.tags }
        let time = options.marksBeginning ? options.now : stored.stored
        insert(stored.value, key, options, stored: time, by: flight)
    }

    func keepAbsence(_ key: Key, _ options: StoreOptions, by flight: Flight) async {
        let life = MemoryLife(options.life, from: options.now)
        let extra = MemoryExtra(tags: options.allTags)
        let gone = flights.whileRegistered(flight, for: key) { memory.insertAbsence(key.text, life: life, extra) }
        if let gone { finish(gone.demand, key.text) }
    }

    func remove(_ key: Key, by flight: Flight) async {
        let gone = flights.whileRegistered(flight, for: key) { memory.discardKept(key.text) }
        if let gone { finish(gone.demand, key.text) }
    }

    func report(_ failure: CacheError, of keys: [Key]) {
        events.post(CacheEvent(.fetchFailed, keys: keys.map(\.text), error: failure))
    }
}
