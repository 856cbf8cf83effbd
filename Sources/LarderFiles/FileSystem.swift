/// The seam through which every system call of the cache goes.
///
/// `PosixFileSystem` is the real one; the tests put a file system in memory behind it whose n-th call fails, tears or
/// loses power. Names are always single components inside an open directory; symbolic links are never followed.
/// Implementations retry on EINTR and finish short transfers, so a caller sees all or an error.
package protocol FileSystem: Sendable {
    /// Opens a directory by its path; the path itself may lead through symbolic links.
    /// Makes it and its missing parents (mode 0700) as `creation` says.
    func openDirectory(path: String, creation: DirectoryCreation) throws(Errno) -> FileDescriptor

    /// Opens a caller's file for reading, by a path that may lead through symbolic links.
    func openFile(path: String) throws(Errno) -> FileDescriptor

    /// Makes a file with the first `size` bytes of another, sharing them where the file system can, and returns it open
    /// for reading and writing. It inherits nothing else: neither mode, flags nor attributes. After an error there is
    /// no such file.
    func copy(
        _ source: borrowing FileDescriptor, size: Int, as name: FileName, in directory: borrowing FileDescriptor,
        access: FileAccess
    ) throws(Errno) -> FileDescriptor

    /// Opens a file or directory inside `directory`.
    func open(
        _ name: FileName, in directory: borrowing FileDescriptor, for use: OpenUse
    ) throws(Errno) -> FileDescriptor

    /// Closes a descriptor; called by `FileDescriptor` alone.
    func close(_ raw: Int32)

    func status(of file: borrowing FileDescriptor) throws(Errno) -> FileStatus
    func status(of name: FileName, in directory: borrowing FileDescriptor) throws(Errno) -> FileStatus

    /// Reads from `offset` until the buffer is full or the file ends; returns the number of bytes.
    func read(
        _ file: borrowing FileDescriptor, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(Errno) -> Int

    /// Writes `head` and then `tail` at `offset`, in one call as far as the system allows.
    func write(
        _ head: UnsafeRawBufferPointer, _ tail: UnsafeRawBufferPointer, to file: borrowing FileDescriptor,
        at offset: Int
    ) throws(Errno)

    func truncate(_ file: borrowing FileDescriptor, to size: Int) throws(Errno)

    /// Returns when the file's content (for a directory: its names) is on stable storage.
    func sync(_ file: borrowing FileDescriptor) throws(Errno)

    func makeDirectory(_ name: FileName, in directory: borrowing FileDescriptor) throws(Errno)
    func rename(
        _ name: FileName, in directory: borrowing FileDescriptor,
        to newName: FileName, in newDirectory: borrowing FileDescriptor
    ) throws(Errno)
    /// Removes a file, or an empty directory.
    func remove(_ name: FileName, in directory: borrowing FileDescriptor, directory isDirectory: Bool) throws(Errno)

    /// Calls `body` with each name but `.` and `..`, in no order, until it answers `false`.
    func list(_ directory: borrowing FileDescriptor, _ body: (FileName, FileKind) -> Bool) throws(Errno)

    /// Bytes that the disk of an open directory has left for this user.
    func freeSpace(of directory: borrowing FileDescriptor) throws(Errno) -> Int

    /// Takes the exclusive advisory lock of an open directory; false when somebody else has it.
    func lock(_ directory: borrowing FileDescriptor) throws(Errno) -> Bool

    /// Lets go of the lock that was taken through this descriptor, whoever else has a copy of it.
    func unlock(_ directory: borrowing FileDescriptor)
}

/// Whether a missing directory is made.
package enum DirectoryCreation: Sendable {
    case never, plain
    /// Made, and its name synced in its parent: it survives a power cut.
    case durable
}

/// Who may read a new file.
package enum FileAccess: Sendable {
    /// Its owner alone: mode 0600.
    case owner
    /// Whom the user's umask lets, as any program's file: mode 0666 less the umask.
    case everybody
}

/// What a file is opened for. Always without following links, without blocking, closed on exec.
package enum OpenUse: Sendable {
    /// An existing regular file. Anything else is `.notRegular`, and is not opened: merely opening a FIFO wakes up
    /// whoever waits to write into it.
    case reading
    case directory
    /// A new file for writing, mode 0600; EEXIST when the name is taken.
    case creating
    /// The same as `reading`, for writing as well.
    case updating
}

extension FileSystem {
    /// Opens a regular file, and tells its size; nil when the name is something else, which is then not opened.
    package func openRegular(
        _ name: FileName, in directory: borrowing FileDescriptor, for use: OpenUse = .reading
    ) throws(Errno) -> (file: SharedDescriptor, size: Int)? {
        let file: FileDescriptor
        do {
            file = try open(name, in: directory, for: use)
        } catch .notRegular {
            return nil
        }
        let size = try status(of: file).size
        return (SharedDescriptor(file), size)
    }

    /// Returns the numbers that are names of this kind in a directory, in no order.
    package func numbers(_ kind: FileKind, in directory: borrowing FileDescriptor) throws(Errno) -> [UInt64] {
        var numbers: [UInt64] = []
        try list(directory) { name, found in
            if case .number(let number) = name, found == kind { numbers.append(number) }
            return true
        }
        return numbers
    }

    package func read(
        _ file: borrowing FileDescriptor, at offset: Int, into bytes: inout [UInt8], from start: Int = 0
    ) throws(Errno) -> Int {
        try bytes.withUnsafeMutableBufferPointer { buffer throws(Errno) in
            let bytes = UnsafeMutableRawBufferPointer(UnsafeMutableBufferPointer(rebasing: buffer[start...]))
            return try read(file, at: offset, into: bytes)
        }
    }

    package func write(
        _ bytes: [UInt8], to file: borrowing FileDescriptor, at offset: Int
    ) throws(Errno) {
        try bytes.withBytes { bytes throws(Errno) in try write(bytes, .none, to: file, at: offset) }
    }
}

/// An open file or directory; closed, by the file system that opened it, when the value goes.
package struct FileDescriptor: ~Copyable, Sendable {
    package let raw: Int32
    private let fileSystem: any FileSystem

    package init(raw: Int32, of fileSystem: any FileSystem) {
        self.raw = raw
        self.fileSystem = fileSystem
    }

    deinit {
        fileSystem.close(raw)
    }
}

/// A descriptor that several owners share; closed when the last of them goes.
package final class SharedDescriptor: Sendable {
    package let file: FileDescriptor

    package init(_ file: consuming FileDescriptor) {
        self.file = file
    }
}

/// What an entry of a directory is.
package enum FileKind: Sendable {
    case regular, directory
    /// A symbolic link, FIFO, socket or device: never followed, opened or deleted.
    case other
}

/// What makes two names one file: the device and the number of the file on it.
package struct FileIdentity: Hashable, Sendable {
    package let device: UInt64
    package let inode: UInt64

    package init(device: UInt64, inode: UInt64) {
        self.device = device
        self.inode = inode
    }
}

/// What the cache asks about a file.
package struct FileStatus: Sendable {
    package let kind: FileKind
    /// Bytes.
    package let size: Int
    package let identity: FileIdentity

    package init(kind: FileKind, size: Int, identity: FileIdentity) {
        self.kind = kind
        self.size = size
        self.identity = identity
    }
}

/// An error number of the operating system.
///
/// The named values stand in `Platform.swift`, the one file that imports the C library.
package struct Errno: Error, Hashable, Sendable {
    package let rawValue: Int32

    package init(rawValue: Int32) {
        self.rawValue = rawValue
    }
}
