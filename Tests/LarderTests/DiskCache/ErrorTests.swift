import Foundation
import LarderFiles
import LarderTestSupport
import Testing

@testable import Larder

@Suite("Readable errors")
struct ErrorTests {
    @Test("a user interface shows the message")
    func localized() {
        let error: any Error = CacheError(.noSpace, doing: "store a value", path: "/cache")
        #expect(error.localizedDescription == "Could not store a value: No space left on device.")
    }

    @Test("an unwritable parent gives its own error, not that of a missing directory")
    func permission() throws {
        let home = try TemporaryDirectory()
        let closed = home.appending("closed")
        try FileManager.default.createDirectory(at: closed, withIntermediateDirectories: false)
        try FileManager.default.setAttributes([.posixPermissions: 0o500], ofItemAtPath: closed.path)
        // Root may write anywhere except in the kernel's file systems.
        let isRoot = FileManager.default.isWritableFile(atPath: closed.path)
        let parent = isRoot ? URL(fileURLWithPath: "/sys") : closed
        guard FileManager.default.fileExists(atPath: parent.path) else { return }
        let path = parent.appendingPathComponent("larder/cache")
        let error = #expect(throws: CacheError.self) { try DiskCache(directory: path) }
        let refusals = [Errno.accessDenied, .notPermitted, .readOnly].map(\.rawValue)
        #expect(error?.code == .io && refusals.contains(error?.errno ?? 0) && error?.path == path.path)
    }
}
