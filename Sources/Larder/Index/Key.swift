import Foundation

/// A key as the index knows it: its text and the hash of its UTF-8 bytes.
///
/// Swift's `==` on strings calls the composed and the decomposed spelling of "é" equal; here they are two keys. The hash is
/// seeded at random in each process, so that no list of hostile keys can slow the index down.
struct Key: Sendable {
    /// UTF-8 bytes.
    static let longest = 64 << 10
    static let shardBits = 6

    let text: String
    let hash: UInt64

    private static let seed = UInt64.random(in: .min ... .max)

    init(_ text: String) {
        var text = text
        hash = text.withUTF8 { XXH64.hash(UnsafeRawBufferPointer($0), seed: Self.seed) }
        self.text = text
    }

    /// The shard of the index and the stripe of the locks that the key falls to.
    var shard: Int { Int(hash >> UInt64(64 - Self.shardBits)) }

    /// The part of the hash by which a shard finds the key.
    var tag: UInt32 { UInt32(truncatingIfNeeded: hash) }

    /// True when `other` has the same UTF-8 bytes. O(length).
    func matches(_ other: String) -> Bool {
        Self.areSame(text, other)
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
        left.hash == right.hash && left.matches(right.text)
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(hash)
    }
}
