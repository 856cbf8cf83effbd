/// The file system of a process that only reads: refuses each change with the same error, whatever the disk allows
/// later.
package struct ReadOnlyFileSystem<Base: FileSystem>: ForwardingFileSystem {
    package let base: Base
    private let error: Errno

    fileprivate init(_ base: Base, _ error: Errno) {
        self.base = base
        self.error = error
    }

    package var forCallers: any FileSystem { base.forCallers }
    package var isReadOnly: Bool { true }

    package func openDirectory(path: String, creation: DirectoryCreation) throws(Errno) -> FileDescriptor {
        try base.openDirectory(path: path, creation: .never)
    }

    package func open(
        _ name: FileName, in directory: borrowing FileDescriptor, for use: OpenUse
    ) throws(Errno) -> FileDescriptor {
        switch use {
        case .reading, .directory: return try base.open(name, in: directory, for: use)
        case .creating: throw error
        case .updating:
            _ = try base.status(of: name, in: directory)
            throw error
        }
    }

    package func copy(
        _ source: borrowing FileDescriptor, size: Int, as name: FileName, in directory: borrowing FileDescriptor,
        access: FileAccess
    ) throws(Errno) -> FileDescriptor { throw error }

    package func write(
        _ head: UnsafeRawBufferPointer, _ tail: UnsafeRawBufferPointer, to file: borrowing FileDescriptor,
        at offset: Int
    ) throws(Errno) { throw error }

    package func truncate(_ file: borrowing FileDescriptor, to size: Int) throws(Errno) { throw error }

    package func allocate(_ range: Range<Int>, for file: borrowing FileDescriptor) throws(Errno) { throw error }

    package func makeDirectory(_ name: FileName, in directory: borrowing FileDescriptor) throws(Errno) { throw error }

    package func rename(
        _ name: FileName, in directory: borrowing FileDescriptor, to newName: FileName,
        in newDirectory: borrowing FileDescriptor
    ) throws(Errno) { throw error }

    /// A missing file is still missing.
    package func remove(
        _ name: FileName, in directory: borrowing FileDescriptor, directory isDirectory: Bool
    ) throws(Errno) {
        _ = try base.status(of: name, in: directory)
        throw error
    }

    package func requireWritable(_ directory: borrowing FileDescriptor) throws(Errno) { throw error }

    package func give(_ file: borrowing FileDescriptor, to owner: FileOwner) throws(Errno) { throw error }
}

extension FileSystem {
    /// Returns the same file system for a process that only reads. Changes throw `error`.
    package func refusingChanges(with error: Errno) -> any FileSystem { ReadOnlyFileSystem(self, error) }
}
