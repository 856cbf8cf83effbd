import Foundation
import Larder

/// The bare system calls that a cache with a file for each entry and a journal cannot avoid; and for large values, the
/// one pass over them that a checksum takes. For one thread.
final class Floor {
    /// The size from which the checksum is included. Bytes.
    private static let large = 64 << 10

    private let folder: Int32
    private let journal: Int32
    private let line = [UInt8](repeating: 120, count: 250)
    private var buffer: [UInt8]
    /// Kept, so that it must be computed.
    private var checksum: UInt64 = 0
    private let hashes: Bool

    /// A description for the reports.
    static func setting(_ size: Int, hashing: Bool = true) -> String {
        "create, write, close, append 250 bytes" + (hashing && size >= large ? ", one XXH64 pass" : "")
    }
    static func getting(_ size: Int, hashing: Bool = true) -> String {
        "open, fstat, read, close" + (hashing && size >= large ? ", one XXH64 pass" : "")
    }

    /// Pass `hashing: false` for a comparison that computes no checksum.
    init(_ folder: Folder, size: Int, hashing: Bool = true) throws {
        hashes = hashing && size >= Self.large
        self.folder = open(folder.floor.path, O_RDONLY | O_DIRECTORY)
        journal = openat(self.folder, "journal", O_WRONLY | O_CREAT | O_APPEND, 0o600)
        buffer = [UInt8](repeating: 0, count: max(size, 1))
        guard self.folder >= 0, journal >= 0 else { throw BenchFailure("cannot write to \(folder.floor.path)") }
    }

    deinit {
        close(journal)
        close(folder)
    }

    /// Creates, writes and closes a file, and appends a record of 250 bytes to another.
    func set(_ name: String, _ payload: [UInt8]) {
        hash(payload)
        let file = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL, 0o600)
        check(file >= 0 && write(file, payload, payload.count) == payload.count)
        close(file)
        check(write(journal, line, line.count) == line.count)
    }

    /// Opens a file, queries its size, reads and closes it.
    func get(_ name: String) {
        let file = openat(folder, name, O_RDONLY)
        var status = stat()
        check(file >= 0 && fstat(file, &status) == 0)
        check(read(file, &buffer, buffer.count) == Int(status.st_size))
        close(file)
        hash(buffer)
    }

    private func hash(_ bytes: [UInt8]) {
        if hashes { checksum = bytes.withUnsafeBytes { XXH64.hash($0) } }
    }

    /// Deletes a file, and appends a record of 100 bytes to another.
    func remove(_ name: String) {
        unlink(name)
        check(write(journal, line, 100) == 100)
    }

    func unlink(_ name: String) {
        check(unlinkat(folder, name, 0) == 0)
    }

    /// A failed call, usually because the disk is full, ends the program.
    private func check(_ hasWorked: Bool) {
        if !hasWorked { Folder.abandon("a system call failed or wrote too little: is the disk full?") }
    }
}
