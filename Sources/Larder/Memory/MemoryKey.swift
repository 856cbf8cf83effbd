import LarderFiles

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
