import LarderFiles

/// Memory alone. It keeps what fetches need, and nothing else beside the values.
struct MemoryBackend<Value: Sendable>: CacheBackend {
    let memory: MemoryCache<String, Value>
    let events: EventCenter
    let flights = Flights()
    let counts = Lock(BackendCounts())
    /// Keys that have no value, as fetches have found out.
    private let absences: MemoryCache<String, Bool>

    init(_ memory: MemoryCache<String, Value>, events: EventCenter) {
        self.memory = memory
        self.events = events
        var configuration = MemoryCache<String, Bool>.Configuration()
        configuration.countLimit = memory.configuration.countLimit
        configuration.sweepInterval = memory.configuration.sweepInterval
        configuration.release = .inline
        absences = MemoryCache(configuration: configuration, clock: memory.time.clock)
    }

    var clock: any Clock { memory.time.clock }
    var defaultTTL: TimeToLive { memory.defaultTTL }

    func key(_ text: String) -> Key { Key(text) }

    func lookupInMemory(_ text: String) -> Lookup<Value>? {
        let now = clock.now
        return memory.lookup(text, at: now).map { Lookup($0.value, from: .memory, life: $0.life, at: now) }
    }

    func lookupBehindMemory(_ text: String) async -> Lookup<Value>? {
        counts.withLock { $0.misses += 1 }
        return nil
    }

    func lookupsBehindMemory(_ texts: [String]) async -> [Lookup<Value>?] {
        counts.withLock { $0.misses += texts.count }
        return texts.map { _ in nil }
    }

    func countMiss() {
        counts.withLock { $0.misses += 1 }
        memory.countMiss()
    }

    // In the lock of the flights, so that none keeps what it brings in between; what leaves is released behind it.

    func set(_ value: Value, _ text: String, ttl: TimeToLive, metadata: [String: String], tags: [String]) async {
        let cost = memory.costOfValue?(value) ?? 0
        guard let life = MemoryLife(ttl, from: clock.now, default: defaultTTL) else {
            _ = await remove(text)
            return
        }
        let left = flights.invalidating(key(text)) {
            absences.removeValue(forKey: text)
            return memory.insertKept(value, forKey: text, life: life, cost: cost, MemoryExtra())
        }
        memory.release(left.demand)
    }

    func remove(_ text: String) async -> Bool {
        let left = flights.invalidating(key(text)) {
            absences.removeValue(forKey: text)
            return memory.discardKept(text)
        }
        memory.release(left.demand)
        return left.wasFresh
    }

    func removeAll() async {
        let demand = flights.invalidatingAll {
            absences.removeAll()
            return memory.removeAllKept()
        }
        memory.release(demand)
    }

    func setTimeToLive(_ ttl: TimeToLive, _ text: String) async -> Bool {
        if MemoryLife(ttl, from: clock.now, default: defaultTTL) == nil { return await remove(text) }
        return memory.setTimeToLive(ttl, forKey: text)
    }

    /// What is removed takes the flights that know it with it.
    func isCurrent(_ usable: StoredValue<Value>, _ key: Key) -> Bool { true }

    func removeAll(tagged tag: String) async {
        await removeAll()
    }

    var isProvisional: Bool { false }

    func look(at keys: [Key]) async {}

    func standing(of key: Key, at now: Timestamp) -> Freshness {
        guard let found = memory.kept(key.text, at: now) else {
            return absences.hasValue(forKey: key.text) ? .absent : .missing
        }
        if found.life.isFresh(at: now) { return .fresh(found.life) }
        if absences.hasValue(forKey: key.text) { return .absent }
        return .stale(expires: found.life.expires, isAnswerable: !found.extra.mustRevalidate)
    }

    func usable(_ key: Key) async -> StoredValue<Value>? {
        guard let found = memory.kept(key.text, at: clock.now) else { return nil }
        return StoredValue(
            value: found.value, metadata: found.extra.metadata, stored: found.extra.stored ?? found.life.begun,
            life: found.life, isAnswerable: !found.extra.mustRevalidate, source: .memory)
    }

    func keep(_ value: Value, _ key: Key, _ terms: StoreOptions, from flight: Flight) async {
        keep(value, key, terms, stored: terms.now, from: flight)
    }

    private func keep(_ value: Value, _ key: Key, _ terms: StoreOptions, stored: Timestamp, from flight: Flight) {
        let cost = memory.costOfValue?(value) ?? 0
        let extra = MemoryExtra(
            metadata: terms.metadata ?? [:], stored: stored, keptStale: terms.keptStale,
            mustRevalidate: terms.mustRevalidate ?? false)
        let life = MemoryLife(begun: terms.now, expires: terms.life.expires)
        let kept = flights.whileFlying(flight, key) {
            absences.removeValue(forKey: key.text)
            return memory.insertKept(value, forKey: key.text, life: life, cost: cost, extra)
        }
        // Released here, where nothing is locked.
        if let kept { memory.release(kept.demand) }
    }

    /// The payload of memory is the value itself: it is put in once more.
    func renew(_ usable: StoredValue<Value>, _ key: Key, _ terms: StoreOptions, from flight: Flight) async {
        var terms = terms
        terms.metadata = terms.metadata ?? usable.metadata
        terms.mustRevalidate = terms.mustRevalidate ?? !usable.isAnswerable
        keep(usable.value, key, terms, stored: usable.stored, from: flight)
    }

    func keepAbsence(_ key: Key, _ terms: StoreOptions, from flight: Flight) async {
        let ttl = TimeToLive(.milliseconds(terms.life.expires.millisecondsSince(terms.now)))
        let left = flights.whileFlying(flight, key) {
            absences.setValue(true, forKey: key.text, ttl: ttl)
            return memory.discardKept(key.text)
        }
        if let left { memory.release(left.demand) }
    }

    func discard(_ key: Key, from flight: Flight) async {
        let left = flights.whileFlying(flight, key) {
            absences.removeValue(forKey: key.text)
            return memory.discardKept(key.text)
        }
        if let left { memory.release(left.demand) }
    }

    func tell(_ failure: CacheError, of keys: [Key]) {
        events.post(CacheEvent(.fetchFailed, keys: keys.map(\.text), error: failure))
    }
}
