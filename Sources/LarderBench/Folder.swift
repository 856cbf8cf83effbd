import Foundation
import Larder
import LarderFiles

/// A directory of a scenario's own: one part for the cache, one for what it is compared with.
struct Folder {
    let url: URL

    var own: URL { url.appendingPathComponent("cache", isDirectory: true) }
    var floor: URL { url.appendingPathComponent("floor", isDirectory: true) }

    init(in place: URL) throws {
        url = place.appendingPathComponent("larder-bench-\(UUID().uuidString)", isDirectory: true)
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false)
        try FileManager.default.createDirectory(at: floor, withIntermediateDirectories: false)
    }

    var isInMemory: Bool { url.path.hasPrefix("/dev/shm/") }

    func cache(_ configure: (inout DiskCache.Configuration) -> Void = { _ in }) throws -> DiskCache {
        var configuration = DiskCache.Configuration()
        configure(&configuration)
        return try DiskCache(directory: own, configuration: configuration)
    }

    func remove() {
        try? FileManager.default.removeItem(at: url)
    }
}

/// A time that stands still until it is moved.
final class BenchClock: Sendable {
    private let time = Lock(Date())

    var now: Date { time.withLock { $0 } }

    func advance(by seconds: TimeInterval) {
        time.withLock { $0 += seconds }
    }
}
