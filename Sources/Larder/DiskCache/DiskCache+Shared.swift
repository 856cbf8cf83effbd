import Foundation
import LarderFiles

extension DiskCache {
    private static let sharedCache = Lock<DiskCache?>(nil)

    /// The cache of this program, in `<Caches>/<bundle identifier, or the program's name>/Larder`.
    ///
    /// Opened by the first use, and again after it has been closed. A failure is not remembered.
    public static var shared: DiskCache {
        get throws(CacheError) {
            try sharedCache.withLock { cache throws(CacheError) in
                if let cache, !cache.isClosed { return cache }
                let program = Bundle.main.bundleIdentifier ?? ProcessInfo.processInfo.processName
                let directory = try CachesDirectory.url(for: program).appendingPathComponent(
                    "Larder", isDirectory: true)
                let opened = try DiskCache(directory: directory)
                cache = opened
                return opened
            }
        }
    }
}
