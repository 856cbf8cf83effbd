package import Foundation

/// A directory for one test, deleted with the object.
package final class TemporaryDirectory: Sendable {
    package let url: URL

    package init() throws {
        let name = "larder-test-\(UUID().uuidString)"
        url = FileManager.default.temporaryDirectory.appendingPathComponent(name, isDirectory: true)
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(at: url)
    }

    package func appending(_ path: String) -> URL {
        url.appendingPathComponent(path)
    }

    /// Returns the names below a path, sorted.
    package func names(in path: String = "") -> [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: url.appendingPathComponent(path).path)) ?? []).sorted()
    }
}
