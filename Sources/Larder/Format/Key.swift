import LarderFiles

/// What identifies an entry, as the index knows it: the text of its key, its namespace, and the hash of both.
///
/// Swift's `==` on strings calls the composed and the decomposed spelling of "é" equal; here they are two keys. The hash is
/// seeded at random in each process, so that no list of hostile keys can slow the index down.
struct Key: Sendable {
    /// UTF-8 bytes; of a namespace's name too.
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

    /// The shard of the index and the stripe of the locks that the key falls to.
    var shard: Int { Int(hash >> UInt64(64 - Self.shardBits)) }

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
