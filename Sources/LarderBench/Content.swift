import Foundation

/// The stored content: keys as long as the path of a URL, and incompressible bytes.
enum Content {
    static func key(_ number: Int) -> String { "https://example.org/a/path/to/item/\(100_000 + number)" }

    static func bytes(_ size: Int) -> [UInt8] {
        (0..<size).map { _ in UInt8.random(in: 0...255) }
    }

    /// The number of operations in a round.
    static func operations(_ size: Int) -> Int { size >= 1 << 20 ? 40 : size > 1 << 10 ? 500 : 2_000 }
}
