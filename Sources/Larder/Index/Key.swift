import Foundation

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
    var tag: UInt32 { UInt32(truncatingIfNeeded: hash) }

    /// True when the row is this key's: the same UTF-8 bytes, in key and namespace. O(length).
    func matches(_ row: Row) -> Bool {
        Self.areSame(text, row.key) && namespace == row.namespace
    }

    static func areSame(_ left: String, _ right: String) -> Bool {
        let outcome = left.utf8.withContiguousStorageIfAvailable { left in
            right.utf8.withContiguousStorageIfAvailable { right in
                left.count == right.count
                    && (left.isEmpty || memcmp(left.baseAddress!, right.baseAddress!, left.count) == 0)
            }
        }
        return (outcome ?? nil) ?? left.utf8.elementsEqual(right.utf8)
    }
}

extension Key: Hashable {
    static func == (left: Key, right: Key) -> Bool {
        left.hash == right.hash && areSame(left.text, right.text) && left.namespace == right.namespace
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(hash)
    }
}
