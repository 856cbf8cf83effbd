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

    /// When the files of a cache can be read on a device that is locked.
    ///
    /// Whatever a class makes unreadable is a miss, with an event, and a change that needs it throws `.io`: a cache
    /// that is also used in the background, while the device is locked, needs one of the last two.
    public struct FileProtection: Hashable, Sendable, CustomStringConvertible {
        private enum Kind: Int32 {
            case complete = 1
            case completeUnlessOpen, completeUntilFirstUserAuthentication, unprotected
        }

        private let kind: Kind

        /// The name of the setting.
        public var description: String { "\(kind)" }

        /// The number of the class.
        var number: Int32 { kind.rawValue }

        /// Only while the device is unlocked.
        public static let complete = FileProtection(kind: .complete)
        /// Also when it is locked, by whoever has opened them before.
        public static let completeUnlessOpen = FileProtection(kind: .completeUnlessOpen)
        /// Once the device has been unlocked since it was started: the system's usual class.
        public static let completeUntilFirstUserAuthentication = FileProtection(
            kind: .completeUntilFirstUserAuthentication)
        /// Always.
        public static let unprotected = FileProtection(kind: .unprotected)
    }

    /// Gives the directories that are there the configured data protection, which new files and folders take over.
    func protectFiles() {
        guard let number = configuration.fileProtection?.number else { return }
        // "." so that a link that leads to the cache is followed, but not one in it.
        let entries = "\(store.path)/\(DirectoryLayout.entries.name)"
        for path in ["\(store.path)/.", entries, "\(entries)/\(SegmentTable.name)"] {
            _ = store.reporter.attempt { () throws(CacheError) in
                try translating("protect the directory", at: path) { () throws(Errno) in
                    do throws(Errno) {
                        try DataProtection.setClass(number, ofDirectory: path)
                    } catch {
                        if error != .noEntry { throw error }
                    }
                }
            }
        }
    }
}
