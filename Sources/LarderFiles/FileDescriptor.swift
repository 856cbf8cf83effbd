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
