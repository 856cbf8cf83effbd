import Foundation
package import LarderFiles

/// The real file system, on a disk that is full at times, for all processes at the same moments.
package struct FillingFileSystem: ForwardingFileSystem {
    /// In nanoseconds.
    private static let (period, fullTime): (UInt64, UInt64) = (97_000_000, 30_000_000)

    package let base = PosixFileSystem()

    package init() {}

    private func takeSpace() throws(Errno) {
        if SharingSetup.now % Self.period < Self.fullTime { throw .noSpace }
    }

    /// Blocks that are allocated take no more space.
    private func takeSpace(for size: Int, of file: borrowing FileDescriptor) throws(Errno) {
        var status = stat()
        if fstat(file.raw, &status) == 0, size <= Int(status.st_blocks) * 512 { return }
        try takeSpace()
    }

    package func copy(
        _ source: borrowing FileDescriptor, size: Int, as name: FileName, in directory: borrowing FileDescriptor,
        access: FileAccess
    ) throws(Errno) -> FileDescriptor {
        try takeSpace()
        return try base.copy(source, size: size, as: name, in: directory, access: access)
    }

    package func open(
        _ name: FileName, in directory: borrowing FileDescriptor, for use: OpenUse
    ) throws(Errno) -> FileDescriptor {
        if case .creating = use { try takeSpace() }
        return try base.open(name, in: directory, for: use)
    }

    /// Writes a part of the bytes to a full disk.
    package func write(
        _ head: UnsafeRawBufferPointer, _ tail: UnsafeRawBufferPointer, to file: borrowing FileDescriptor,
        at offset: Int
    ) throws(Errno) {
        do {
            try takeSpace(for: offset + head.count + tail.count, of: file)
        } catch {
            let part = UnsafeRawBufferPointer(rebasing: head.prefix(head.count / 2))
            try base.write(part, UnsafeRawBufferPointer(start: nil, count: 0), to: file, at: offset)
            throw error
        }
        try base.write(head, tail, to: file, at: offset)
    }

    package func allocate(_ range: Range<Int>, for file: borrowing FileDescriptor) throws(Errno) {
        try takeSpace(for: range.upperBound, of: file)
        try base.allocate(range, for: file)
    }

    package func makeDirectory(_ name: FileName, in directory: borrowing FileDescriptor) throws(Errno) {
        try takeSpace()
        try base.makeDirectory(name, in: directory)
    }
}
