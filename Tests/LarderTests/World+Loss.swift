import LarderTestSupport

@testable import Larder
@testable import LarderTesting

/// The loss of the whole index: the files decide.
extension World {
    static func withoutIndex(_ image: MemoryImage) -> MemoryImage {
        var image = image
        for name in image.names(at: "/cache") where name != "entries" { image.remove(at: "/cache/" + name) }
        return image
    }

    /// Ends this process, and all others, by a kill.
    mutating func killAndLoseIndex() {
        files.kill()
        restart(with: Self.withoutIndex(files.restarted().image))
    }

    /// The values of a key that are found after power cuts with these seeds; each with the files that were left.
    func valuesAfterPowerCuts(_ seeds: Range<Int>, of key: String = "k") throws -> [(value: String, files: [String])] {
        var found: [(value: String, files: [String])] = []
        for seed in seeds {
            var generator = SeededGenerator(seed: UInt64(seed))
            let image = files.imageAfterPowerCut(using: &generator)
            var next = self
            next.restart(with: Self.withoutIndex(image))
            let cache = try next.open()
            let first = cache.string(forKey: key)
            try cache.flush()
            if let value = first ?? cache.string(forKey: key) {
                found.append((value, image.names(at: "/cache/entries")))
            }
        }
        return found
    }
}
