import LarderFiles

/// The storage of a cache: the disk with memory above it, or memory alone.
protocol CacheBackend<Value>: Sendable {
    associatedtype Value: Sendable

    var flights: Flights { get }
    var clock: any Clock { get }
    var defaults: CacheDefaults { get }
    /// Whether reading begins lives again.
    var slides: Bool { get }
    var counts: BackendCounters { get }
    /// Nil when reads are not reported.
    var readEvents: ReadEvents? { get }

    func key(_ text: String) -> Key

    /// Brings in what other processes have changed: a fetch that began before a removal of theirs is none to join.
    func follow()

    /// Returns a fresh value that is in memory; counts a hit there, but no miss.
    func findInMemory(_ text: String) -> Lookup<Value>?

    /// Returns an expired value that is in memory and may be an answer within these windows; counts a hit there.
    func findStaleInMemory(_ text: String, _ windows: StaleWindows) -> Lookup<Value>?

    /// Returns a fresh value that is not in memory, and counts a hit or a miss. Without a disk it is a miss. Asks the
    /// remote tier.
    func lookupOnDisk(_ key: Key) async -> Lookup<Value>?

    /// Returns the fresh values on disk of several keys; counts no misses but those of the disk tier. Does not ask the
    /// remote tier: `bring` does.
    func lookupsOnDisk(_ keys: [Key]) async -> [Lookup<Value>?]

    /// Counts a miss: in memory, in the disk tier unless it has counted the miss itself, and of both.
    func countMiss(of key: Key, isCountedOnDisk: Bool)

    /// Counts a miss in memory alone.
    func countMissInMemory()

    /// Counts an answer from a stored value, fresh or stale, for the tier that had it.
    func countHit(_ found: Lookup<Value>)

    /// Takes a miss back that `countMiss` has counted, because a stored value is the answer after all. Without one in
    /// memory, it stays a miss there. `isCountedOnDisk`: the disk has counted it, for all that looked at a time.
    func takeBackMiss(of key: Key, _ found: Lookup<Value>, isCountedOnDisk: Bool)

    func set(_ values: [(key: String, value: Value)], _ options: SetOptions) async throws(CacheError)
    func remove(_ text: String) async throws(CacheError) -> Bool
    /// Returns the number of fresh values. The error's keys are those that were left.
    func remove(_ texts: [String]) async throws(CacheError) -> Int
    func removeAll() async throws(CacheError)
    func removeAll(tagged tag: String) async throws(CacheError)
    func expire(_ text: String) async throws(CacheError) -> Bool
    func expireAll() async throws(CacheError)
    func expireAll(tagged tag: String) async throws(CacheError)
    func setTimeToLive(_ ttl: TimeToLive, _ text: String) async throws(CacheError) -> Bool

    /// Returns the fresh value of a key, with the attributes that survive a replacement. Throws where it cannot be
    /// read: that is not absence.
    func current(_ key: Key) async throws(CacheError) -> CurrentValue<Value>

    /// Replaces `current` by a new value, or by none, if the key has not changed since the watch began. Returns whether
    /// it did. Without options, the life and the attributes of the current value stay.
    func replace(
        _ current: CurrentValue<Value>, with value: Value?, _ options: SetOptions, _ watch: Watch
    ) async throws(CacheError) -> Bool

    /// Whether reads ask a remote tier.
    var hasRemoteTier: Bool { get }

    /// Makes the copies of these keys as good as the remote tier knows them. Returns the fresh values that it had and
    /// that are new here; without a remote tier nothing.
    func bring(_ keys: [Key]) async -> [Lookup<Value>?]

    /// Called before a flight fetches these keys. For a single key it may wait until another machine has fetched it,
    /// and then returns that value; `cached` looks for a value here.
    func beginFetch(
        _ keys: [Key], _ options: FetchOptions, by flight: Flight,
        cached: @escaping @Sendable (Key) async -> FetchOutcome?
    ) async -> FetchOutcome?

    // For fetches. A flight changes a key only while it is registered for it. Failures to store are reported,
    // not thrown.

    /// Returns the state of a key. Opens no file.
    func freshness(of key: Key, at now: Timestamp) -> Freshness

    /// True for an entry on disk whose value counts as missing, because it is not of the cache's type.
    func isUndecodable(_ entry: IndexEntry, _ key: Key) -> Bool

    /// True while entries count only once their files have been checked.
    var isProvisional: Bool { get }

    /// Checks the files of keys while the entries are provisional.
    func settle(_ keys: [Key]) async

    /// Returns a value, fresh or stale, that a fetch may go by.
    func storedValue(for key: Key) async -> StoredValue<Value>?

    /// True when no call, other than a flight's, has changed the value since it was read.
    func isCurrent(_ stored: StoredValue<Value>, _ key: Key) -> Bool

    func keep(_ value: Value, _ key: Key, _ options: StoreOptions, by flight: Flight) async
    func renew(_ stored: StoredValue<Value>, _ key: Key, _ options: StoreOptions, by flight: Flight) async
    func keepAbsence(_ key: Key, _ options: StoreOptions, by flight: Flight) async
    func remove(_ key: Key, by flight: Flight) async

    /// Posts the event of a fetch that has failed.
    func report(_ failure: CacheError, of keys: [Key])
}

extension CacheBackend {
    var defaultTTL: TimeToLive { defaults.ttl }
    var hasRemoteTier: Bool { false }
    func isUndecodable(_ entry: IndexEntry, _ key: Key) -> Bool { false }

    func bring(_ keys: [Key]) async -> [Lookup<Value>?] { keys.map { _ in nil } }

    func beginFetch(
        _ keys: [Key], _ options: FetchOptions, by flight: Flight,
        cached: @escaping @Sendable (Key) async -> FetchOutcome?
    ) async -> FetchOutcome? { nil }

    /// The values that are not in memory, from disk or the remote tier.
    func lookups(_ keys: [Key]) async -> [Lookup<Value>?] {
        if !hasRemoteTier { return await lookupsOnDisk(keys) }
        var found = await bring(keys)
        let rest = keys.indices.filter { found[$0] == nil }
        for (index, lookup) in zip(rest, await lookupsOnDisk(rest.map { keys[$0] })) { found[index] = lookup }
        return found
    }

    func remove(_ texts: [String]) async throws(CacheError) -> Int {
        try await count(texts) { (text) async throws(CacheError) in try await remove(text) }
    }

    /// Counts for how many keys `remove` returns true.
    func count(
        _ texts: [String], _ remove: (String) async throws(CacheError) -> Bool
    ) async throws(CacheError) -> Int {
        var count = 0
        for (index, text) in texts.enumerated() {
            do throws(CacheError) {
                if try await remove(text) { count += 1 }
            } catch {
                throw error.leaving(Array(texts[index...]))
            }
        }
        return count
    }

    /// Returns a fresh value that is in memory; counts a hit or a miss there.
    func lookupInMemory(_ text: String) -> Lookup<Value>? {
        let found = findInMemory(text)
        if found == nil { countMissInMemory() }
        return found
    }

    func lookup(_ key: Key) async -> Lookup<Value>? {
        if let found = lookupInMemory(key.text) { return found }
        return await lookupOnDisk(key)
    }
}

/// The settings of a cache for calls that do not say otherwise.
struct CacheDefaults: Sendable {
    var ttl: TimeToLive
    var keepStale: TimeToLive?
    var policy = FetchPolicy.cacheFirst

    /// How long a value that a caller stores is kept after its expiry. Milliseconds.
    func keptStale(_ keepStale: TimeToLive?, after expires: Timestamp) -> Int64 {
        keepStale?.milliseconds(after: expires, defaultTTL: ttl)
            ?? policy.keptStale(
                after: expires, revalidates: false, configured: self.keepStale, defaultTTL: ttl)
    }
}

/// The fresh value of a key, as a caller sees it that wants to change it.
struct CurrentValue<Value: Sendable>: Sendable {
    var stored: StoredValue<Value>?
    /// The fresh entry on disk, even if it cannot be decoded; nil: none.
    var entry: IndexEntry?
    /// An entry that cannot be trusted or read, and counts as none.
    var hidden: IndexEntry?
    /// How long the caller may still wait for a remote tier; nil: the whole time.
    var patience: Duration?
}

/// How a caller's values are stored.
struct SetOptions: Sendable {
    /// Nil: the life of the value that is replaced, or else the default.
    var ttl: TimeToLive?
    var keepStale: TimeToLive?
    var metadata: [String: String] = [:]
    var tags: [String] = []
    /// Whether they may be stored on disk.
    var toDisk = true
    /// Fields of the record that the disk keeps without knowing them.
    var unknown: [UInt8] = []
}

/// The state of a key in the cache.
enum Freshness: Equatable {
    case missing
    case fresh(MemoryLife, stored: Timestamp)
    /// There is an expired value; `isAnswerable` unless it must be revalidated.
    case stale(expires: Timestamp, isAnswerable: Bool)
    /// It is known that there is no value.
    case absent
}

/// A value in the cache, fresh or stale, that a fetch may go by.
struct StoredValue<Value: Sendable>: Sendable {
    let value: Value
    let metadata: [String: String]
    let stored: Timestamp
    let life: MemoryLife
    /// Whether calls may be answered with it once it is stale.
    let isAnswerable: Bool
    /// The tier that had it.
    let source: ValueSource
    let tags: [Key]
    /// How long it is kept beyond its expiry. Milliseconds.
    var keptStale: Int64 = 0
    /// Whether it may be stored on disk.
    var toDisk = true
    /// The entry on disk; nil where it is in memory alone.
    var entry: IndexEntry?

    /// The part of it that a fetch is given, and callers may be answered with.
    func lookup(at now: Timestamp) -> Lookup<Value> {
        Lookup(value, from: source, life: life, metadata: metadata, at: now)
    }
}

/// How the result of a fetch is stored.
struct StoreOptions: Sendable {
    let now: Timestamp
    let life: Life
    /// Nil: unchanged.
    var metadata: [String: String]?
    /// Those of the call that fetched; none: unchanged.
    var tags: [Key]
    /// Those of the callers that joined.
    var joinedTags: [Key]
    /// How long beyond its expiry a value is kept. Milliseconds.
    var keptStale: Int64
    /// Nil: unchanged, or else false.
    var mustRevalidate: Bool?
    /// Whether it may be stored on disk.
    var toDisk = true
    /// Whether the time must be kept at which a renewed life begins.
    var marksBeginning = false
    /// Fields of the record that the disk keeps without knowing them.
    var unknown: [UInt8] = []

    var allTags: [Key] { tags + joinedTags.filter { !tags.contains($0) } }
}

/// The counters of a cache, whatever its backend.
final class BackendCounters: Sendable {
    struct Values: Sendable {
        var hits = 0
        var misses = 0
        /// Values that the remote tier had.
        var remoteHits = 0
        /// Answers that there is no value.
        var absences = 0
        var fetches = FetchStatistics()
    }

    private let state = Lock(Values())

    var values: Values { state.withLock { $0 } }

    func update(_ change: (inout Values) -> Void) {
        state.withLock(change)
    }
}
