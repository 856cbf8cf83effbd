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
