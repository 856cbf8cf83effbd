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

/// Where the platform wants caches to be.
enum CachesDirectory {
    /// Returns the URL of one name in it.
    static func url(for name: String) throws(CacheError) -> URL {
        guard !name.isEmpty, name != ".", name != "..",
            !name.utf8.contains(where: { $0 == 0 || $0 == UInt8(ascii: "/") })
        else {
            throw CacheError(
                code: .invalidName, message: "A cache's name is one path component; \"\(name)\" is none.", path: name)
        }
        guard let caches = FileManager.default.urls(for: .cachesDirectory, in: .userDomainMask).first else {
            throw CacheError(
                code: .invalidName, message: "There is no caches directory on this system; name one.", path: name)
        }
        return caches.appendingPathComponent(name, isDirectory: true)
    }
}
