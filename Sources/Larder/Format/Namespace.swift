import LarderFiles

/// A part of a cache with keys of its own. Its name is part of the identity of its entries; compared by its UTF-8 bytes.
struct Namespace: Sendable {
    let name: String
    /// The seed of its keys' hashes.
    let seed: UInt64

    private static let seed = UInt64.random(in: .min ... .max)

    /// What entries belong to that were stored without a namespace.
    static let none = Namespace("")

    var isNone: Bool { name.isEmpty }

    init(_ name: String) {
        var name = name
        seed = name.withUTF8 { XXH64.hash(UnsafeRawBufferPointer($0), seed: Self.seed) }
        self.name = name
    }
}

extension Namespace: Hashable {
    static func == (left: Namespace, right: Namespace) -> Bool {
        left.seed == right.seed && left.name.hasSameBytes(as: right.name)
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(seed)
    }
}
