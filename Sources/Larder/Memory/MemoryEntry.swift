public import LarderFiles

/// A value in memory with its key, life, last use and cost, or the knowledge that a key has no value.
@usableFromInline
struct MemoryEntry<Key: Sendable, Value: Sendable>: Sendable {
    @usableFromInline let key: Key
    /// Nil: the key is known to be absent.
    @usableFromInline var value: Value?
    @usableFromInline var life: MemoryLife
    @usableFromInline var used: Timestamp
    @usableFromInline var cost: Int

    @inlinable
    init(_ value: consuming Value?, for key: Key, life: MemoryLife, used: Timestamp, cost: Int) {
        self.key = key
        self.value = value
        self.life = life
        self.used = used
        self.cost = cost
    }

    /// The largest cost, and the largest limit: the sum of the costs stays within the limit, so adding one more value
    /// cannot overflow.
    @inlinable static var costBound: Int { .max / 2 }

    @inlinable
    static func bounded(_ cost: Int) -> Int { min(max(0, cost), costBound) }
}

/// The beginning and the end of a life in memory.
@usableFromInline
struct MemoryLife: Hashable, Sendable {
    @usableFromInline let begun: Timestamp
    @usableFromInline let expires: Timestamp

    /// The disk tier's rule: an entry is expired from its expiry on, and an entry from the future is not trusted.
    @inlinable
    func isFresh(at now: Timestamp) -> Bool {
        now < expires && isFromPast(at: now)
    }

    @inlinable
    func isFromPast(at now: Timestamp) -> Bool { begun.milliseconds &- now.milliseconds <= Life.clockTolerance }

    init(begun: Timestamp, expires: Timestamp) {
        self.begun = begun
        self.expires = expires
    }

    /// A life that begins now; nil for "do not keep".
    @usableFromInline
    init?(_ ttl: TimeToLive, from now: Timestamp, default standard: TimeToLive) {
        guard let life = ttl.life(from: now, default: standard) else { return nil }
        begun = now
        expires = life.expires
    }

    /// The life of an entry on disk, which may have been renewed since it was stored.
    init(_ entry: IndexEntry) {
        let life = entry.life
        let renewed =
            life.ttl == Life.unlimited || life.isForever ? nil : life.expires.advanced(byMilliseconds: -life.ttl)
        begun = max(entry.stored, renewed ?? entry.stored)
        expires = life.expires
    }
}

/// Attributes that few values have.
@usableFromInline
struct MemoryExtra: Sendable {
    var metadata: [String: String] = [:]
    /// The time of the store, if the life was renewed later.
    var stored: Timestamp?
    /// How long the value is kept beyond its expiry, in milliseconds; `Life.unlimited`: for ever.
    @usableFromInline var keptStale: Int64 = 0
    @usableFromInline var mustRevalidate = false
    var tags: [Larder.Key] = []
    /// Whether a disk tier could not store the value: it is in memory alone.
    var isUnstored = false

    var isNone: Bool { metadata.isEmpty && keptStale == 0 && !mustRevalidate && tags.isEmpty && !isUnstored }
}

extension MemoryExtra {
    /// The attributes of an entry on disk that count in memory.
    init(_ entry: IndexEntry) {
        self.init(
            metadata: entry.metadata, keptStale: entry.attachments?.traits.keptStale ?? 0,
            mustRevalidate: entry.mustRevalidate)
    }
}

/// How a memory cache compares keys: strings by their UTF-8 bytes, as on disk, and all other types by their own `==`.
///
/// Swift's `==` considers the composed and the decomposed spelling of "é" equal; in both tiers they are two keys.
@usableFromInline
enum MemoryKey {
    /// The part of a key's hash that the table uses to find it. Randomly seeded in each process.
    @inlinable
    static func fingerprint<Key: Hashable>(_ key: Key) -> UInt32 {
        if Key.self == String.self { return fingerprint(text: unsafeBitCast(key, to: String.self)) }
        return UInt32(truncatingIfNeeded: key.hashValue)
    }

    @inlinable
    static func areSame<Key: Hashable>(_ left: Key, _ right: Key) -> Bool {
        if Key.self == String.self {
            return areSame(text: unsafeBitCast(left, to: String.self), unsafeBitCast(right, to: String.self))
        }
        return left == right
    }

    /// The cost of knowing that a key has no value: the UTF-8 bytes of a string, at least 1; 1 for other types.
    static func cost<Key: Hashable>(_ key: Key) -> Int {
        Key.self == String.self ? max(1, unsafeBitCast(key, to: String.self).utf8.count) : 1
    }

    @usableFromInline
    static func fingerprint(text: String) -> UInt32 {
        let hash = text.utf8.withContiguousStorageIfAvailable {
            XXH64.hash(UnsafeRawBufferPointer($0), seed: Namespace.none.seed)
        }
        return UInt32(truncatingIfNeeded: hash ?? Larder.Key(text).hash)
    }

    @usableFromInline
    static func areSame(text left: String, _ right: String) -> Bool {
        left.hasSameBytes(as: right)
    }
}
