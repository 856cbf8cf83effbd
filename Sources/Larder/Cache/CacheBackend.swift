import LarderFiles

/// What a cache keeps its values in: the disk and the memory before it, or memory alone.
protocol CacheBackend<Value>: Sendable {
    associatedtype Value: Sendable

    var flights: Flights { get }
    var clock: any Clock { get }
    var defaultTTL: TimeToLive { get }
    var counts: Lock<BackendCounts> { get }

    func key(_ text: String) -> Key

    /// Returns a fresh value that is in memory.
    func lookupInMemory(_ text: String) -> Lookup<Value>?

    /// Counts a miss of all tiers that was found out without looking into them.
    func countMiss()

    /// Returns a fresh value that is not in memory, and counts a hit or a miss.
    func lookupBehindMemory(_ text: String) async -> Lookup<Value>?

    /// The same for several keys.
    func lookupsBehindMemory(_ texts: [String]) async -> [Lookup<Value>?]

    func set(
        _ value: Value, _ text: String, ttl: TimeToLive, metadata: [String: String], tags: [String]
    ) async throws(CacheError)
    func remove(_ text: String) async throws(CacheError) -> Bool
    func removeAll() async throws(CacheError)
    func removeAll(tagged tag: String) async throws(CacheError)
    func setTimeToLive(_ ttl: TimeToLive, _ text: String) async throws(CacheError) -> Bool

    // For fetches. What a flight brings is kept only while it is flying; what cannot be kept is reported.

    /// Tells what there is, without reading it.
    func standing(of key: Key, at now: Timestamp) -> Freshness

    /// True while an entry has to be looked at before it counts.
    var isProvisional: Bool { get }

    /// Looks at the entries of keys, on a thread that may wait; `standing` asks no file.
    func look(at keys: [Key]) async

    /// Returns a value that a fetch may go by, fresh or stale.
    func usable(_ key: Key) async -> StoredValue<Value>?

    /// True when it still is what there is for the key, as far as others than flights are concerned.
    func isCurrent(_ usable: StoredValue<Value>, _ key: Key) -> Bool

    func keep(_ value: Value, _ key: Key, _ terms: StoreOptions, from flight: Flight) async
    func renew(_ usable: StoredValue<Value>, _ key: Key, _ terms: StoreOptions, from flight: Flight) async
    func keepAbsence(_ key: Key, _ terms: StoreOptions, from flight: Flight) async
    func discard(_ key: Key, from flight: Flight) async

    /// Tells that a fetch has failed.
    func tell(_ failure: CacheError, of keys: [Key])
}

extension CacheBackend {
    func lookup(_ text: String) async -> Lookup<Value>? {
        if let found = lookupInMemory(text) { return found }
        return await lookupBehindMemory(text)
    }
}

/// What there is for a key.
enum Freshness: Equatable {
    case missing
    case fresh(MemoryLife)
    /// A value that has expired; whether calls may be answered with it.
    case stale(expires: Timestamp, isAnswerable: Bool)
    /// It is known that there is no value.
    case absent
}

/// A value that a fetch may go by.
struct StoredValue<Value: Sendable>: Sendable {
    let value: Value
    let metadata: [String: String]
    let stored: Timestamp
    let life: MemoryLife
    let isAnswerable: Bool
    /// Which tier had it.
    let source: ValueSource
    /// That on disk; nil without a disk tier.
    var entry: IndexEntry?

    /// What a fetch is given of it.
    var cached: CachedValue<Value> {
        let expires = life.expires.milliseconds == Life.unlimited ? nil : life.expires.date
        return CachedValue(value: value, metadata: metadata, storedAt: stored.date, expiresAt: expires)
    }
}

/// How what a fetch has brought is to be kept.
struct StoreOptions: Sendable {
    let now: Timestamp
    let life: Life
    /// Nil: as it was.
    var metadata: [String: String]?
    var tags: [Key]
    /// Milliseconds beyond the expiry.
    var keptStale: Int64
    /// Nil: as it was, or else not.
    var mustRevalidate: Bool?
}

/// What a cache counts, whatever it keeps its values in.
struct BackendCounts: Sendable {
    var hits = 0
    var misses = 0
    var fetches = FetchStatistics()
}
