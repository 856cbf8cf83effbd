import Foundation

/// Where the platform wants caches to be.
enum CachesDirectory {
    /// Takes the place of the platform's, for the tests of one task.
    @TaskLocal static var root: URL?

    /// Returns the URL of one name in it.
    static func url(for name: String) throws(CacheError) -> URL {
        guard !name.isEmpty, name != ".", name != "..",
            !name.utf8.contains(where: { $0 == 0 || $0 == UInt8(ascii: "/") })
        else {
            throw CacheError(
                code: .invalidName, message: "A cache's name is one path component; \"\(name)\" is none.", path: name)
        }
        let platform = FileManager.default.urls(for: .cachesDirectory, in: .userDomainMask).first
        guard let caches = root ?? platform else {
            throw CacheError(
                code: .invalidName, message: "There is no caches directory on this system; name one.", path: name)
        }
        return caches.appendingPathComponent(name, isDirectory: true)
    }
}
