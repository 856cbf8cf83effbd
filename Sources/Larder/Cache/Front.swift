import LarderFiles

/// What a cache keeps its values in: the disk and the memory before it, or memory alone.
protocol Front<Value>: Sendable {
    associatedtype Value: Sendable

    var flights: Flights { get }
    var clock: any Clock { get }
    var defaultTTL: TimeToLive { get }
    var counts: Lock<FrontCounts> { get }

    func key(_ text: String) -> Key

    /// Returns a fresh value that is in memory.
    func lookupInMemory(_ text: String) -> Lookup<Value>?

    /// Counts a miss of all tiers that was found out without looking into them.
    func countMiss()

    /// Returns a fresh value that is not in memory, and counts a hit or a miss.
    func lookupBehindMemory(_ text: String) async -> Lookup<Value>?

    func set(
        _ value: Value, _ text: String, ttl: TimeToLive, metadata: [String: String], tags: [String]
    ) async throws(CacheError)
    func remove(_ text: String) async throws(CacheError) -> Bool
    func removeAll() async throws(CacheError)
    func removeAll(tagged tag: String) async throws(CacheError)
    func setTimeToLive(_ ttl: TimeToLive, _ text: String) async throws(CacheError) -> Bool

    // For fetches. What a flight brings is kept only while it is flying; what cannot be kept is reported.

    /// Tells what there is, without reading it.
    func standing(of key: Key, at now: Timestamp) -> Standing

    /// Returns a value that a fetch may go by, fresh or stale.
    func usable(_ key: Key) async -> Usable<Value>?

    /// True when a value on disk is still that of the key.
    func isCurrent(_ row: Row, _ key: Key) -> Bool

    func keep(_ value: Value, _ key: Key, _ terms: FetchTerms, from flight: Flight) async
    func renew(_ usable: Usable<Value>, _ key: Key, _ terms: FetchTerms, from flight: Flight) async
    func keepAbsence(_ key: Key, _ terms: FetchTerms, from flight: Flight) async
    func discard(_ key: Key, from flight: Flight) async

    /// Tells that a fetch has failed.
    func tell(_ failure: CacheError, of keys: [Key])
}

extension Front {
    func lookup(_ text: String) async -> Lookup<Value>? {
        if let found = lookupInMemory(text) { return found }
        return await lookupBehindMemory(text)
    }
}

/// What there is for a key.
enum Standing: Equatable {
    case missing
    case fresh(MemoryLife)
    /// A value that has expired; whether calls may be answered with it.
    case stale(expires: Timestamp, isAnswerable: Bool)
    /// It is known that there is no value.
    case absent
}

/// A value that a fetch may go by.
struct Usable<Value: Sendable>: Sendable {
    let value: Value
    let metadata: [String: String]
    let stored: Timestamp
    let life: MemoryLife
    let isAnswerable: Bool
    /// Which tier had it.
    let source: ValueSource
    /// That on disk; nil without a disk tier.
    var row: Row?

    /// What a fetch is given of it.
    var cached: CachedValue<Value> {
        let expires = life.expires.milliseconds == Life.unlimited ? nil : life.expires.date
        return CachedValue(value: value, metadata: metadata, storedAt: stored.date, expiresAt: expires)
    }
}

/// How what a fetch has brought is to be kept.
struct FetchTerms: Sendable {
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
struct FrontCounts: Sendable {
    var hits = 0
    var misses = 0
    var fetches = FetchStatistics()
}
