import Foundation

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
