/// A file system that passes each call on to another, except for those that it implements itself.
package protocol ForwardingFileSystem: FileSystem {
    associatedtype Base: FileSystem
    var base: Base { get }
}

extension ForwardingFileSystem {
    package var boot: UInt64 { base.boot }
    package var processID: Int32 { base.processID }
    package var userID: UInt32 { base.userID }

    package func openDirectory(path: String, creation: DirectoryCreation) throws(Errno) -> FileDescriptor {
        try base.openDirectory(path: path, creation: creation)
    }
    package func openFile(path: String) throws(Errno) -> FileDescriptor { try base.openFile(path: path) }
    package func copy(
        _ source: borrowing FileDescriptor, size: Int, as name: FileName, in directory: borrowing FileDescriptor,
        access: FileAccess
    ) throws(Errno) -> FileDescriptor {
        try base.copy(source, size: size, as: name, in: directory, access: access)
    }
    package func open(
        _ name: FileName, in directory: borrowing FileDescriptor, for use: OpenUse
    ) throws(Errno) -> FileDescriptor { try base.open(name, in: directory, for: use) }
    package func close(_ raw: Int32) { base.close(raw) }
    package func status(of file: borrowing FileDescriptor) throws(Errno) -> FileStatus { try base.status(of: file) }
    package func status(of name: FileName, in directory: borrowing FileDescriptor) throws(Errno) -> FileStatus {
        try base.status(of: name, in: directory)
    }
    package func content(of file: borrowing FileDescriptor, from offset: Int) throws(Errno) -> Range<Int>? {
        try base.content(of: file, from: offset)
    }
    package func read(
        _ file: borrowing FileDescriptor, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(Errno) -> Int { try base.read(file, at: offset, into: buffer) }
    package func write(
        _ head: UnsafeRawBufferPointer, _ tail: UnsafeRawBufferPointer, to file: borrowing FileDescriptor,
        at offset: Int
    ) throws(Errno) { try base.write(head, tail, to: file, at: offset) }
    package func truncate(_ file: borrowing FileDescriptor, to size: Int) throws(Errno) {
        try base.truncate(file, to: size)
    }
    package func allocate(_ range: Range<Int>, for file: borrowing FileDescriptor) throws(Errno) {
        try base.allocate(range, for: file)
    }
    package func sync(_ file: borrowing FileDescriptor) throws(Errno) { try base.sync(file) }
    package func makeDirectory(_ name: FileName, in directory: borrowing FileDescriptor) throws(Errno) {
        try base.makeDirectory(name, in: directory)
    }
    package func rename(
        _ name: FileName, in directory: borrowing FileDescriptor, to newName: FileName,
        in newDirectory: borrowing FileDescriptor
    ) throws(Errno) { try base.rename(name, in: directory, to: newName, in: newDirectory) }
    package func remove(
        _ name: FileName, in directory: borrowing FileDescriptor, directory isDirectory: Bool
    ) throws(Errno) { try base.remove(name, in: directory, directory: isDirectory) }
    package func list(_ directory: borrowing FileDescriptor, _ body: (FileName, FileKind) -> Bool) throws(Errno) {
        try base.list(directory, body)
    }
    package func freeSpace(of directory: borrowing FileDescriptor) throws(Errno) -> Int {
        try base.freeSpace(of: directory)
    }
    package func lock(_ directory: borrowing FileDescriptor, shared: Bool) throws(Errno) -> Bool {
        try base.lock(directory, shared: shared)
    }
    package func give(_ file: borrowing FileDescriptor, to owner: FileOwner) throws(Errno) {
        try base.give(file, to: owner)
    }
    package func unlock(_ directory: borrowing FileDescriptor) { base.unlock(directory) }
    package func requireWritable(_ directory: borrowing FileDescriptor) throws(Errno) {
        try base.requireWritable(directory)
    }
    package func pagePlace(of directory: borrowing FileDescriptor) throws(Errno) -> PagePlace? {
        try base.pagePlace(of: directory)
    }
    package func sharedMemory() throws(Errno) -> FileDescriptor { try base.sharedMemory() }
    package func map(_ file: borrowing FileDescriptor, words: Int) throws(Errno) -> MappedWords {
        try base.map(file, words: words)
    }
    package func lock(byte: Int, of file: borrowing FileDescriptor) throws(Errno) -> Bool {
        try base.lock(byte: byte, of: file)
    }
    package func unlock(byte: Int, of file: borrowing FileDescriptor) { base.unlock(byte: byte, of: file) }
    package func lockedByte(in bytes: Range<Int>, of file: borrowing FileDescriptor) throws(Errno) -> Int? {
        try base.lockedByte(in: bytes, of: file)
    }
}
