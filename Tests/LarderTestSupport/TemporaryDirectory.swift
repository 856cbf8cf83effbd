public import Foundation

/// A directory of its own for one test, deleted with the value.
public final class TemporaryDirectory: Sendable {
    public let url: URL

    public init() throws {
        let name = "larder-test-\(UUID().uuidString)"
        url = FileManager.default.temporaryDirectory.appendingPathComponent(name, isDirectory: true)
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(at: url)
    }

    public func appending(_ path: String) -> URL {
        url.appendingPathComponent(path)
    }

    /// Returns the names below a path, sorted.
    public func names(in path: String = "") -> [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: url.appendingPathComponent(path).path)) ?? []).sorted()
    }
}
