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
}

/// The beginning and the end of a life in memory, and whether reading may renew it.
@usableFromInline
struct MemoryLife: Hashable, Sendable {
    /// Twice the milliseconds at which the life began, plus 1 if it never slides: an entry has no room for a flag.
    @usableFromInline let beginning: Int64
    @usableFromInline let expires: Timestamp

    @inlinable var begun: Timestamp { Timestamp(milliseconds: beginning >> 1) }

    /// Whether the life ends at a given date or never, so that reading does not renew it.
    var isFixed: Bool { beginning & 1 == 1 }

    /// The disk tier's rule: an entry is expired from its expiry on, and an entry from the future is not trusted.
    @inlinable
    func isFresh(at now: Timestamp) -> Bool {
        now < expires && isFromPast(at: now)
    }

    @inlinable
    func isFromPast(at now: Timestamp) -> Bool { begun.milliseconds &- now.milliseconds <= Life.clockTolerance }

    init(begun: Timestamp, expires: Timestamp, isFixed: Bool = false) {
        beginning = min(max(begun.milliseconds, .min / 2), .max / 2) << 1 | (isFixed ? 1 : 0)
        self.expires = expires
    }

    /// A life that begins now.
    init(_ life: Life, from now: Timestamp) {
        self.init(begun: now, expires: life.expires, isFixed: life.ttl == Life.unlimited || life.isForever)
    }

    /// A life that begins now; nil for "do not keep".
    @usableFromInline
    init?(_ ttl: TimeToLive, from now: Timestamp, default standard: TimeToLive) {
        guard let life = ttl.life(from: now, default: standard) else { return nil }
        self.init(life, from: now)
    }

    /// The life of an entry on disk, which may have been renewed since it was stored.
    init(_ entry: IndexEntry) {
        let life = entry.life
        let isFixed = life.ttl == Life.unlimited || life.isForever
        // A life that a caller has ended has no length.
        let renewed = isFixed || life.isEnded ? entry.stored : life.expires.advanced(byMilliseconds: -life.ttl)
        self.init(begun: max(entry.stored, renewed), expires: life.expires, isFixed: isFixed)
    }

    /// The same life begun again now; nil where nothing changes. A clock that was set back shortens no life.
    func renewed(at now: Timestamp) -> MemoryLife? {
        if isFixed || now <= begun { return nil }
        return MemoryLife(begun: now, expires: now.advanced(byMilliseconds: expires.millisecondsSince(begun)))
    }

    /// The same life, over now.
    func ended(at now: Timestamp) -> MemoryLife {
        MemoryLife(begun: begun, expires: now, isFixed: isFixed)
    }
}

/// Attributes that few values have.
@usableFromInline
struct MemoryExtra: Sendable {
    var metadata: [String: String] = [:]
    /// The time of the store, if the life was renewed later.
    var stored: Timestamp?
    /// How long the value is kept beyond its expiry, in milliseconds; `Life.unlimited`: forever.
    @usableFromInline var keptStale: Int64 = 0
    @usableFromInline var mustRevalidate = false
    var tags: [Larder.Key] = []
    /// Whether the value is in memory alone, beside a disk tier: that could not store it, or may not.
    var isUnstored = false
    /// Whether a disk tier may store it.
    var toDisk = true

    var isNone: Bool { metadata.isEmpty && keptStale == 0 && !mustRevalidate && tags.isEmpty && !isUnstored && toDisk }
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
