import Foundation
package import LarderTesting

/// The seed of this run of the tests, from which all their randomness follows.
///
/// The environment's `LARDER_SEED` repeats a run; otherwise each run has another seed. It is printed when it is first
/// used.
package enum RunSeed {
    package static let value: UInt64 = {
        let given = ProcessInfo.processInfo.environment["LARDER_SEED"].flatMap { UInt64($0) }
        let seed = given ?? .random(in: 0..<1_000_000)
        print("the seed of this run: LARDER_SEED=\(seed)")
        return seed
    }()

    /// Returns the seed of a test: another one for each function and label, always the same for the same run's seed.
    package static func seed(
        _ label: Any = "", file: String = #fileID, function: String = #function
    ) -> UInt64 {
        // FNV-1a: Swift's own hashes differ from process to process.
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in "\(file) \(function) \(label)".utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        var generator = SeededGenerator(seed: hash ^ value)
        return generator.next() % 1_000_000
    }

    /// Returns a generator with that seed.
    package static func generator(
        _ label: Any = "", file: String = #fileID, function: String = #function
    ) -> SeededGenerator {
        SeededGenerator(seed: seed(label, file: file, function: function))
    }
}
