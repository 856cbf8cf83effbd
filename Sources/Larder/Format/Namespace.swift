import LarderFiles

/// A part of a cache with keys of its own. Its name, compared by its UTF-8 bytes, is part of the identity of its
/// entries.
///
/// One reference: a key that has no namespace, as most have not, is copied without counting one.
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

    /// Random, so that nobody can prepare keys with one hash.
    private static let processSeed = UInt64.random(in: .min ... .max)

    /// The namespace of entries that were stored without one.
    static var none: Namespace { Namespace(Named?.none) }

    private init(_ named: Named?) {
        self.named = named
    }

    init(_ name: String) {
        named = name.isEmpty ? nil : Named(name)
    }

    /// The seed of its keys' hashes.
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
