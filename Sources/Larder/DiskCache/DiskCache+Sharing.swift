import LarderFiles

extension DiskCache {
    /// The processes that may have a cache's directory open at the same time.
    ///
    /// A directory may be opened in either way, but by one way at a time: an opening that does not fit in throws
    /// ``CacheError/Code-swift.struct/directoryInUse``.
    public struct Sharing: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: Hashable { case processes, exclusive }

        private let kind: Kind

        /// The name of the setting.
        public var description: String { "\(kind)" }

        /// Up to 64 processes of one machine. Once a call has returned in one of them, calls that begin later in any of
        /// them see its effect; <doc:SharingADirectory> has the details. Needs a local disk.
        public static let processes = Sharing(kind: .processes)
        /// One process, on any file system. A removal takes fewer instructions.
        public static let exclusive = Sharing(kind: .exclusive)

        /// `processes` on macOS and Linux. On iOS, tvOS, watchOS and visionOS, where an app is suspended with its locks
        /// held, `exclusive`.
        public static let platformDefault = Platform.runsManyProcesses ? processes : exclusive
    }

    /// The users that may write in a cache's directory. It belongs to the owner of its `entries`, or before there are
    /// any to its own owner.
    ///
    /// An opening by another user throws ``CacheError/Code-swift.struct/io``. In a new directory of another owner, such
    /// as a mount point that belongs to root, any user but root who may write there becomes the owner.
    public struct Access: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: Hashable { case ownerOnly, asOwner }

        private let kind: Kind

        /// The name of the setting.
        public var description: String { "\(kind)" }

        /// The owner alone. Root, too, is refused in the directory of another user: the owner could not open its files.
        public static let ownerOnly = Access(kind: .ownerOnly)
        /// The owner, and root: every file that root creates is given to the owner. Root does not create the directory
        /// again when it is deleted while it is open.
        public static let asOwner = Access(kind: .asOwner)
    }
}
