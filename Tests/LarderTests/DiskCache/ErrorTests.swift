import Foundation
import LarderFiles
import LarderTestSupport
import Testing

@testable import Larder

@Suite("Errors that people read")
struct ErrorTests {
    @Test("a user interface shows the message")
    func localized() {
        let error: any Error = CacheError(.noSpace, doing: "store a value", path: "/cache")
        #expect(error.localizedDescription == "Could not store a value: No space left on device.")
    }

    @Test("a parent that may not be written into says so, and not that the directory is missing")
    func permission() throws {
        let home = try TemporaryDirectory()
        let closed = home.appending("closed")
        try FileManager.default.createDirectory(at: closed, withIntermediateDirectories: false)
        try FileManager.default.setAttributes([.posixPermissions: 0o500], ofItemAtPath: closed.path)
        // Root may write anywhere, but for the file system of the kernel.
        let isRoot = FileManager.default.isWritableFile(atPath: closed.path)
        let parent = isRoot ? URL(fileURLWithPath: "/sys") : closed
        guard FileManager.default.fileExists(atPath: parent.path) else { return }
        let path = parent.appendingPathComponent("larder/cache")
        let error = #expect(throws: CacheError.self) { try DiskCache(directory: path) }
        let refusals = [Errno.accessDenied, .notPermitted, .readOnly].map(\.rawValue)
        #expect(error?.code == .io && refusals.contains(error?.errno ?? 0) && error?.path == path.path)
    }
}
