public import LarderFiles

/// A value in memory with all that is known about it.
@usableFromInline
struct MemoryEntry<Key: Sendable, Value: Sendable>: Sendable {
    @usableFromInline let key: Key
    @usableFromInline var value: Value
    @usableFromInline var life: MemoryLife
    @usableFromInline var used: Timestamp
    @usableFromInline var cost: Int

    @inlinable
    init(_ value: Value, for key: Key, life: MemoryLife, used: Timestamp, cost: Int) {
        self.key = key
        self.value = value
        self.life = life
        self.used = used
        self.cost = cost
    }

    /// Costs that can be summed up: none below 0, and none beyond 1 TiB, or what else the unit is.
    @inlinable
    static func bounded(_ cost: Int) -> Int { min(max(0, cost), 1 << 40) }

    @inlinable
    func isFresh(at now: Timestamp) -> Bool { life.isFresh(at: now) }
}

/// When a life in memory began and when it ends.
@usableFromInline
struct MemoryLife: Hashable, Sendable {
    @usableFromInline let begun: Timestamp
    @usableFromInline let expires: Timestamp

    /// The rule of the disk tier: an entry is expired from its expiry on, and one from the future is not believed.
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

/// What few values in memory have beside them: those that a fetch has brought, where there is no disk.
@usableFromInline
struct MemoryExtra: Sendable {
    var metadata: [String: String] = [:]
    /// Before the life began, where that was renewed.
    var stored: Timestamp?
    /// For how long the value is kept beyond its expiry. Milliseconds; `Life.unlimited`: for ever.
    var keptStale: Int64 = 0
    var mustRevalidate = false

    var isNone: Bool { metadata.isEmpty && keptStale == 0 && !mustRevalidate }
}

/// How a cache in memory tells keys apart: strings by their UTF-8 bytes, as on disk, and all else by its own `==`.
///
/// Swift's `==` on strings calls the composed and the decomposed spelling of "é" equal; in both tiers they are two keys.
@usableFromInline
enum MemoryKey {
    /// The part of a key's hash by which the table finds it. Seeded at random in each process.
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
