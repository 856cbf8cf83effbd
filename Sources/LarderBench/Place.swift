import Foundation

/// Where is measured.
struct Place {
    let url: URL
    /// In memory; on a disk making files is slow for minutes after many were deleted, so nothing goes there before the
    /// end.
    let isInMemory: Bool

    init(_ url: URL) throws {
        var isDirectory: ObjCBool = false
        guard FileManager.default.fileExists(atPath: url.path, isDirectory: &isDirectory), isDirectory.boolValue,
            FileManager.default.isWritableFile(atPath: url.path)
        else { throw BenchFailure("there is no directory \(url.path) to write to") }
        self.url = url
        isInMemory = Self.isTemporaryFileSystem(url.path)
    }

    /// In memory, where there is that and it has room, and on the disk of temporary files.
    static func standard() throws -> [Place] {
        let disk = try Place(FileManager.default.temporaryDirectory)
        guard let memory = try? Place(URL(fileURLWithPath: "/dev/shm", isDirectory: true)), memory.isInMemory,
            let space = try? FileManager.default.attributesOfFileSystem(forPath: memory.url.path)[.systemFreeSize]
                as? Int,
            space >= neededSpace
        else { return [disk] }
        return [memory, disk]
    }

    /// Bytes that a scenario may take with a few rounds, and some more.
    private static let neededSpace = 2 << 30

    /// As Linux tells; elsewhere no.
    private static func isTemporaryFileSystem(_ path: String) -> Bool {
        guard let mounts = try? String(contentsOfFile: "/proc/mounts", encoding: .utf8) else { return false }
        let (lines, path) = (mounts.split(separator: "\n").map { $0.split(separator: " ") }, path + "/")
        let around = lines.filter { $0.count > 2 && path.hasPrefix($0[1] == "/" ? "/" : $0[1] + "/") }
        return around.max { $0[1].utf8.count < $1[1].utf8.count }?[2] == "tmpfs"
    }
}
