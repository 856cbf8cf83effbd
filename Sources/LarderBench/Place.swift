import Foundation

/// The place where scenarios run.
struct Place {
    let url: URL
    /// In memory. On a disk, creating files is slow for minutes after many were deleted, so the disk comes last.
    let isInMemory: Bool

    init(_ url: URL) throws {
        var isDirectory: ObjCBool = false
        guard FileManager.default.fileExists(atPath: url.path, isDirectory: &isDirectory), isDirectory.boolValue,
            FileManager.default.isWritableFile(atPath: url.path)
        else { throw BenchFailure("there is no directory \(url.path) to write to") }
        self.url = url
        isInMemory = Self.isTemporaryFileSystem(url.path)
    }

    /// A directory in memory, if there is one with room, and the disk of temporary files.
    static func standard() throws -> [Place] {
        let disk = try Place(FileManager.default.temporaryDirectory)
        guard let memory = try? Place(URL(fileURLWithPath: "/dev/shm", isDirectory: true)), memory.isInMemory,
            let space = try? FileManager.default.attributesOfFileSystem(forPath: memory.url.path)[.systemFreeSize]
                as? Int,
            space >= neededSpace
        else { return [disk] }
        return [memory, disk]
    }

    /// The bytes that a scenario with a few rounds may take, with a margin.
    private static let neededSpace = 2 << 30

    /// As Linux reports; false elsewhere.
    private static func isTemporaryFileSystem(_ path: String) -> Bool {
        guard let mounts = try? String(contentsOfFile: "/proc/mounts", encoding: .utf8) else { return false }
        let (lines, path) = (mounts.split(separator: "\n").map { $0.split(separator: " ") }, path + "/")
        let around = lines.filter { $0.count > 2 && path.hasPrefix($0[1] == "/" ? "/" : $0[1] + "/") }
        return around.max { $0[1].utf8.count < $1[1].utf8.count }?[2] == "tmpfs"
    }
}
