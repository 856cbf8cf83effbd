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
        /// One process. Some calls take a few percent fewer instructions, and a removal whose file cannot be deleted
        /// throws instead of succeeding.
        public static let exclusive = Sharing(kind: .exclusive)

        /// `processes` on macOS and Linux. On iOS, tvOS, watchOS and visionOS, where an app is suspended with its locks
        /// held, `exclusive`.
        public static let platformDefault = Platform.runsManyProcesses ? processes : exclusive
    }
}
