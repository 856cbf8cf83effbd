import LarderFiles
import LarderFoundation

/// The identity of an entry in the index: the text of its key, its namespace, and the hash of both.
///
/// Swift's `==` on strings equates the composed and the decomposed spelling of "é"; here they are two keys. The hash is
/// randomly seeded in each process, so no list of hostile keys can slow the index down.
struct Key: Sendable {
    /// The maximum length of a key, and of a namespace's name, in UTF-8 bytes.
    static let longest = 64 << 10
    static let shardBits = 6

    let text: String
    let namespace: Namespace
    let hash: UInt64

    init(_ text: String, in namespace: Namespace = .none) {
        var text = text
        hash = text.withUTF8 { XXH64.hash(UnsafeRawBufferPointer($0), seed: namespace.seed) }
        self.text = text
        self.namespace = namespace
    }

    /// The shard of the index and the stripe of the disk queue to which the key belongs.
    var shard: Int { Self.shard(ofHash: hash) }

    static func shard(ofHash hash: UInt64) -> Int { Int(hash >> UInt64(64 - shardBits)) }

    /// The stripe of the key among all processes: unlike the shard, it is the same in each of them. O(length).
    var stripe: Int { Int(hash(seed: 0) >> 58) }

    /// A hash that is the same in each process. O(length).
    func hash(seed: UInt64) -> UInt64 {
        var (text, seed) = (text, seed)
        if !namespace.isNone {
            var name = namespace.name
            seed = name.withUTF8 { XXH64.hash(UnsafeRawBufferPointer($0), seed: seed) }
        }
        return text.withUTF8 { XXH64.hash(UnsafeRawBufferPointer($0), seed: seed) }
    }

    /// The part of the hash by which a shard finds the key.
    var fingerprint: UInt32 { UInt32(truncatingIfNeeded: hash) }
}

extension Key: Hashable {
    static func == (left: Key, right: Key) -> Bool {
        left.hash == right.hash && left.text.hasSameBytes(as: right.text) && left.namespace == right.namespace
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(hash)
    }
}

extension CacheError {
    static func notFound(_ key: Key) -> CacheError {
        CacheError(code: .notFound, message: "There is no value for the key \"\(key.text.prefix(100))\".")
    }
}

/// A part of a cache with keys of its own. Its name, compared by its UTF-8 bytes, is part of the identity of its
/// entries.
///
/// One reference: a key without a namespace, as most are, is copied without reference counting.
struct Namespace: Sendable {
    private final class Named: Sendable {
        let name: String
        let seed: UInt64

        init(_ name: String) {
            var name = name
            seed = name.withUTF8 { XXH64.hash(UnsafeRawBufferPointer($0), seed: Namespace.processSeed) }
            self.name = name
        }
    }

    private let named: Named?

    /// Random, so that an attacker cannot prepare keys with equal hashes.
    private static let processSeed = HashSeed.fixed.withLock { $0 } ?? .random(in: .min ... .max)

    /// The namespace of entries that were stored without one.
    static var none: Namespace { Namespace(Named?.none) }

    private init(_ named: Named?) {
        self.named = named
    }

    init(_ name: String) {
        named = name.isEmpty ? nil : Named(name)
    }

    /// A namespace inside this one, with both names joined by U+001F; this namespace itself for an empty name.
    func appending(_ inner: String) -> Namespace {
        if inner.isEmpty { return self }
        return Namespace(isNone ? inner : "\(name)\u{1F}\(inner)")
    }

    /// The hash seed of its keys.
    var seed: UInt64 { named?.seed ?? Self.processSeed }

    var name: String { named?.name ?? "" }

    var isNone: Bool { named == nil }
}

extension Namespace: Hashable {
    static func == (left: Namespace, right: Namespace) -> Bool {
        guard let one = left.named, let other = right.named else { return left.isNone && right.isNone }
        return one === other || one.seed == other.seed && one.name.hasSameBytes(as: other.name)
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(seed)
    }
}

extension String {
    /// True when both have the same UTF-8 bytes; `==` equates both spellings of "é". O(length).
    func hasSameBytes(as other: String) -> Bool {
        let outcome = utf8.withContiguousStorageIfAvailable { left in
            other.utf8.withContiguousStorageIfAvailable { right in
                left.count == right.count
                    && (left.isEmpty || memcmp(left.baseAddress!, right.baseAddress!, left.count) == 0)
            }
        }
        return (outcome ?? nil) ?? utf8.elementsEqual(other.utf8)
    }
}
