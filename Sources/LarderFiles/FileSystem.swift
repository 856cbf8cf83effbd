/// The interface through which the cache makes every system call.
///
/// `PosixFileSystem` is the real implementation. The tests use a file system in memory that can fail, tear a write or
/// lose power at the n-th call. A name is always a single component inside an open directory, and symbolic links are
/// never followed. Implementations retry on EINTR and complete short transfers, so a caller gets everything or an
/// error.
package protocol FileSystem: Sendable {
    /// Opens a directory by its path, which may contain symbolic links. Creates it and its missing parents (mode 0700)
    /// as `creation` says.
    func openDirectory(path: String, creation: DirectoryCreation) throws(Errno) -> FileDescriptor

    /// Opens a caller's file for reading, by a path that may contain symbolic links.
    func openFile(path: String) throws(Errno) -> FileDescriptor

    /// Creates a file with the first `size` bytes of another, sharing blocks where the file system can, and returns it
    /// open for reading and writing. It inherits neither mode, flags nor attributes. After an error the file does not
    /// exist.
    func copy(
        _ source: borrowing FileDescriptor, size: Int, as name: FileName, in directory: borrowing FileDescriptor,
        access: FileAccess
    ) throws(Errno) -> FileDescriptor

    /// Opens a file or directory inside `directory`.
    func open(
        _ name: FileName, in directory: borrowing FileDescriptor, for use: OpenUse
    ) throws(Errno) -> FileDescriptor

    /// Closes a descriptor. Only `FileDescriptor` calls it.
    func close(_ raw: Int32)

    func status(of file: borrowing FileDescriptor) throws(Errno) -> FileStatus
    func status(of name: FileName, in directory: borrowing FileDescriptor) throws(Errno) -> FileStatus

    /// Reads from `offset` until the buffer is full or the file ends, and returns the number of bytes read.
    func read(
        _ file: borrowing FileDescriptor, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(Errno) -> Int

    /// Returns the next part of a file, from `offset` on, that is not a hole; nil: there is none. All is content where
    /// the file system knows no holes.
    func content(of file: borrowing FileDescriptor, from offset: Int) throws(Errno) -> Range<Int>?

    /// Writes `head` and then `tail` at `offset`, in one call if the system allows it.
    func write(
        _ head: UnsafeRawBufferPointer, _ tail: UnsafeRawBufferPointer, to file: borrowing FileDescriptor,
        at offset: Int
    ) throws(Errno)

    func truncate(_ file: borrowing FileDescriptor, to size: Int) throws(Errno)

    /// Allocates the blocks of a range of a file without changing its size: writing them then needs no space. `truncate`
    /// frees those beyond its end. Throws `.notSupported` where the file system cannot. O(length of the range).
    func allocate(_ range: Range<Int>, for file: borrowing FileDescriptor) throws(Errno)

    /// Returns once the file's content (for a directory: its names) is on stable storage.
    func sync(_ file: borrowing FileDescriptor) throws(Errno)

    func makeDirectory(_ name: FileName, in directory: borrowing FileDescriptor) throws(Errno)
    func rename(
        _ name: FileName, in directory: borrowing FileDescriptor,
        to newName: FileName, in newDirectory: borrowing FileDescriptor
    ) throws(Errno)
    /// Removes a file, or an empty directory.
    func remove(_ name: FileName, in directory: borrowing FileDescriptor, directory isDirectory: Bool) throws(Errno)

    /// Calls `body` with each name except `.` and `..`, in no particular order, until it returns `false`.
    func list(_ directory: borrowing FileDescriptor, _ body: (FileName, FileKind) -> Bool) throws(Errno)

    /// Bytes available to this user on the disk of an open directory.
    func freeSpace(of directory: borrowing FileDescriptor) throws(Errno) -> Int

    /// Takes the advisory lock of an open directory, alone or with others that share it; false when another process
    /// holds one that excludes it.
    func lock(_ directory: borrowing FileDescriptor, shared: Bool) throws(Errno) -> Bool

    /// Identifies the current boot of the system, so it is different after a power cut. 0: unknown.
    var boot: UInt64 { get }

    /// The identifier of this process: another one in a child that was forked.
    var processID: Int32 { get }

    /// The user to whom new files belong: the effective user of this process.
    var userID: UInt32 { get }

    /// True when every change is refused.
    var isReadOnly: Bool { get }

    /// Gives a file or directory to another user.
    func give(_ file: borrowing FileDescriptor, to owner: FileOwner) throws(Errno)

    /// The file system for the files of a caller, outside of the cache's directory.
    var forCallers: any FileSystem { get }

    /// Releases the lock taken through this descriptor, even if another process has a copy of the descriptor.
    func unlock(_ directory: borrowing FileDescriptor)

    /// Throws `.readOnly` or `.accessDenied` when this process cannot create files in a directory.
    func requireWritable(_ directory: borrowing FileDescriptor) throws(Errno)

    /// Where processes that share a directory can have their page; nil when its disk is not known to keep mapped files,
    /// locks and writes of several processes in step. Those of the network are not.
    func pagePlace(of directory: borrowing FileDescriptor) throws(Errno) -> PagePlace?

    /// Opens the directory whose files are in the shared memory of the system. Throws `.noEntry` when there is none.
    func sharedMemory() throws(Errno) -> FileDescriptor

    /// Maps the first words of a file, which has as many. Other processes that map it see each change at once.
    func map(_ file: borrowing FileDescriptor, words: Int) throws(Errno) -> MappedWords

    /// Takes the lock of one byte of a file for this process; false when another process holds it. It ends with the
    /// process, and when the process closes *any* descriptor of the file. A child process does not inherit it.
    func lock(byte: Int, of file: borrowing FileDescriptor) throws(Errno) -> Bool

    func unlock(byte: Int, of file: borrowing FileDescriptor)

    /// Returns one of the bytes whose lock another process holds; nil when there is none.
    func lockedByte(in bytes: Range<Int>, of file: borrowing FileDescriptor) throws(Errno) -> Int?
}

/// Whether a missing directory is created.
package enum DirectoryCreation: Sendable {
    case never, plain
    /// Created, and its name synced in its parent, so it survives a power cut.
    case durable
}

/// The access rights of a new file.
package enum FileAccess: Sendable {
    /// The owner only: mode 0600.
    case owner
    /// Everyone the user's umask allows, as for any program's file: mode 0666 less the umask.
    case everybody
}

/// The purpose of opening a file. All of them are non-blocking, close on exec and never follow links.
package enum OpenUse: Sendable {
    /// An existing regular file. Anything else is `.notRegular` and is not opened: opening a FIFO would wake up a
    /// waiting writer.
    case reading
    case directory
    /// A new file for writing, mode 0600; EEXIST when the name exists.
    case creating
    /// Like `reading`, but for writing as well.
    case updating
}

/// The place of memory that several processes have mapped.
package enum PagePlace: Sendable {
    /// In the directory: a block that is written stays where it is, so a store to it needs no room.
    case directory
    /// In the shared memory of the system: the disk copies blocks on write, so a store may need room.
    case memory
}

extension FileSystem {
    /// True when every change is refused.
    package var isReadOnly: Bool { false }

    package var forCallers: any FileSystem { self }

    /// Takes the exclusive advisory lock of an open directory; false when another process holds one.
    package func lock(_ directory: borrowing FileDescriptor) throws(Errno) -> Bool {
        try lock(directory, shared: false)
    }

    /// Opens a regular file and returns it with its size; nil when the name is not a regular file, which is then not
    /// opened.
    package func openRegular(
        _ name: FileName, in directory: borrowing FileDescriptor, for use: OpenUse = .reading
    ) throws(Errno) -> (file: OwnedDescriptor, size: Int)? {
        let file: FileDescriptor
        do {
            file = try open(name, in: directory, for: use)
        } catch .notRegular {
            return nil
        }
        let size = try status(of: file).size
        return (OwnedDescriptor(file), size)
    }

    /// Creates a file for writing. First deletes one that a killed process left under the name.
    package func createAnew(
        _ name: FileName, in directory: borrowing FileDescriptor
    ) throws(Errno) -> FileDescriptor {
        do {
            return try open(name, in: directory, for: .creating)
        } catch .exists {
            try removeRegular(name, in: directory)
            return try open(name, in: directory, for: .creating)
        }
    }

    /// Removes a regular file. Anything else under the name, and a missing one, is left alone.
    package func removeRegular(_ name: FileName, in directory: borrowing FileDescriptor) throws(Errno) {
        do throws(Errno) {
            if try status(of: name, in: directory).kind == .regular {
                try remove(name, in: directory, directory: false)
            }
        } catch {
            if error != .noEntry { throw error }
        }
    }

    /// Returns the numeric names of this kind in a directory, in no particular order.
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

    /// Writes the first `size` bytes of another file into an empty one, or as many as it has. Holes stay holes.
    package func fill(
        _ file: borrowing FileDescriptor, from source: borrowing FileDescriptor, _ size: Int
    ) throws(Errno) {
        var buffer = [UInt8](repeating: 0, count: min(size, 1 << 20))
        var done = 0
        while let part = try content(of: source, from: done), part.lowerBound < size {
            done = part.lowerBound
            let end = min(part.upperBound, size)
            while done < end {
                let count = min(try read(source, at: done, into: &buffer), end - done)
                // It has been cut meanwhile.
                if count == 0 { return }
                try buffer.withBytes { bytes throws(Errno) in
                    try write(bytes.part(0..<count), .none, to: file, at: done)
                }
                done += count
            }
        }
        let length = min(size, try status(of: source).size)
        if done < length { try truncate(file, to: length) }
    }

    package func write(
        _ bytes: [UInt8], to file: borrowing FileDescriptor, at offset: Int
    ) throws(Errno) {
        try bytes.withBytes { bytes throws(Errno) in try write(bytes, .none, to: file, at: offset) }
    }
}

/// An open file or directory. The file system that opened it closes it when the value is destroyed.
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

/// A descriptor with several owners, closed when the last one releases it.
package final class OwnedDescriptor: Sendable {
    package let file: FileDescriptor

    package init(_ file: consuming FileDescriptor) {
        self.file = file
    }
}

/// The kind of a directory entry.
package enum FileKind: Sendable {
    case regular, directory
    /// A symbolic link, FIFO, socket or device: never followed, opened or deleted.
    case other
}

/// The identity of a file: two names with the same device and inode are the same file.
package struct FileIdentity: Hashable, Sendable {
    package let device: UInt64
    package let inode: UInt64

    package init(device: UInt64, inode: UInt64) {
        self.device = device
        self.inode = inode
    }
}

/// The user and the group that a file belongs to.
package struct FileOwner: Hashable, Sendable {
    package let user: UInt32
    package let group: UInt32

    package init(user: UInt32, group: UInt32) {
        self.user = user
        self.group = group
    }
}

/// The attributes of a file that the cache uses.
package struct FileStatus: Sendable {
    package let kind: FileKind
    /// Bytes.
    package let size: Int
    package let identity: FileIdentity
    /// The number of its names; 0 for an open file that has none any more.
    package let links: Int
    package let owner: FileOwner
    /// Whether its group or everybody may write.
    package let isWritableByOthers: Bool
    /// When its bytes or attributes were changed last. Nanoseconds since 1970.
    package let changed: Int64

    package init(
        kind: FileKind, size: Int, identity: FileIdentity, links: Int, owner: FileOwner, isWritableByOthers: Bool,
        changed: Int64 = 0
    ) {
        self.kind = kind
        self.size = size
        self.identity = identity
        self.links = links
        self.owner = owner
        self.isWritableByOthers = isWritableByOthers
        self.changed = changed
    }

    package var isLinked: Bool { links > 0 }
}

/// An error number of the operating system.
///
/// The named values are in `Platform.swift`, the only file that imports the C library.
package struct Errno: Error, Hashable, Sendable {
    package let rawValue: Int32

    package init(rawValue: Int32) {
        self.rawValue = rawValue
    }
}
