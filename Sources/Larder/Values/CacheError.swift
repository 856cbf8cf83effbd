import LarderFiles
public import LarderFoundation

/// A failure of the cache: its kind, its place and its cause.
///
/// Reads do not throw. A write that throws leaves the old value in place.
public struct CacheError: Error, Sendable {
    /// The kind of failure.
    public var code: Code
    /// A sentence for people.
    public var message: String
    /// The directory or file concerned, if any.
    public var path: String?
    /// The error number of the operating system, if that is the cause.
    public var errno: Int32?
    /// The keys that a call for several keys left unchanged; empty for every other error.
    public var keys: [String] = []

    /// Creates an error.
    public init(
        code: Code, message: String, path: String? = nil, errno: Int32? = nil, keys: [String] = []
    ) {
        self.code = code
        self.message = message
        self.path = path
        self.errno = errno
        self.keys = keys
    }

    /// The kinds of failure. More may be added.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        /// The name of the code.
        public let description: String

        private init(_ description: String) {
            self.description = description
        }

        /// Another process has the directory open, and the two do not share it: one of them is
        /// ``DiskCache/Sharing/exclusive``. Or 64 processes have it open.
        public static let directoryInUse = Code("directoryInUse")
        /// The directory holds something other than a cache, or is not a directory. It was not touched.
        public static let notACache = Code("notACache")
        /// The directory was written by a newer version of Larder. It was not touched.
        public static let newerFormat = Code("newerFormat")
        /// The handle has been closed, or belongs to the process that this one was forked from.
        public static let closed = Code("closed")
        /// The disk, or a quota on it, is full.
        public static let noSpace = Code("noSpace")
        /// The operating system refused; `errno` says why.
        public static let io = Code("io")
        /// A key is longer than 64 KiB, a record (key and metadata) than 1 MiB, or a value than `sizeLimit` or 1 TiB.
        public static let tooLarge = Code("tooLarge")
        /// The value cannot be encoded.
        public static let unencodable = Code("unencodable")
        /// The name or URL of a cache is not usable.
        public static let invalidName = Code("invalidName")
        /// There is no such value.
        public static let notFound = Code("notFound")
        /// A fetch took longer than its policy allows.
        public static let timedOut = Code("timedOut")
        /// A fetch failed. Only in events: its callers get its own error.
        public static let fetchFailed = Code("fetchFailed")
        /// A fetch would wait for itself: it asked the cache for its own key, directly or through other fetches.
        public static let fetchCycle = Code("fetchCycle")
        /// Processes cannot share a directory on this disk, such as one of the network.
        public static let unsupportedDisk = Code("unsupportedDisk")
        /// The directory is already open in this process with other settings.
        public static let differentConfiguration = Code("differentConfiguration")
        /// The remote tier failed. Only in events: no call fails because of it.
        public static let remoteTier = Code("remoteTier")
        /// The stored bytes are not a value of the requested type. They are kept, as they may belong to another type.
        public static let undecodable = Code("undecodable")
    }
}

extension CacheError {
    /// `byOneAlone`: a process has it for itself, and this one would share it.
    static func directoryInUse(_ path: String, byOneAlone: Bool = false) -> CacheError {
        let holder =
            byOneAlone
            ? "Another process has the cache open for itself alone."
            : "Another process has the cache open, and this one wants it for itself alone."
        return CacheError(
            code: .directoryInUse,
            message: """
                \(holder) To see which: lsof '\(path)'. Close the cache there, use the same setting `sharing` in both, \
                or use another directory.
                """,
            path: path)
    }

    static func forked(_ path: String) -> CacheError {
        CacheError(
            code: .closed,
            message: "A forked child process cannot use the cache of its parent. Open caches after the fork.",
            path: path)
    }

    static func timedOut(_ timeout: Duration) -> CacheError {
        CacheError(code: .timedOut, message: "The fetch took longer than \(timeout).")
    }

    static func fetchCycle(_ key: String) -> CacheError {
        CacheError(
            code: .fetchCycle, message: "A fetch asks for the key \"\(key)\", whose own fetch waits for it.")
    }

    static var nothingToRevalidate: CacheError {
        CacheError(code: .notFound, message: "A fetch returned notModified for a value that the cache does not have.")
    }

    /// The error of a call for several keys that stopped at the first of `keys`.
    func leaving(_ keys: [String]) -> CacheError {
        var error = self
        error.keys = keys
        error.message += " \(Wording.number(keys.count, "key is", "keys are")) left as before: \(Wording.list(keys))."
        return error
    }

    static func closed(_ path: String) -> CacheError {
        CacheError(code: .closed, message: "The cache has been closed.", path: path)
    }
}

extension CacheError: LocalizedError {
    /// The message: the text that `localizedDescription` gives a user interface.
    public var errorDescription: String? { message }
}

extension CacheError: CustomStringConvertible {
    /// The message, followed by code, path and system error.
    public var description: String {
        var text = "\(message) [\(code)"
        if let errno { text += ", errno \(errno)" }
        if let path { text += ", \(path)" }
        return text + "]"
    }
}

extension CacheError {
    /// Translates an error of the file system. Error numbers become codes only here.
    init(_ errno: Errno, doing what: String, path: String) {
        let code: Code =
            switch errno {
            case .noSpace, .overQuota: .noSpace
            default: .io
            }
        self.init(code: code, message: "Could not \(what): \(errno).", path: path, errno: errno.rawValue)
    }
}

/// Runs a file-system call and translates its error.
func translating<Result>(
    _ what: @autoclosure () -> String, at path: @autoclosure () -> String, _ body: () throws(Errno) -> Result
) throws(CacheError) -> Result {
    do {
        return try body()
    } catch {
        throw CacheError(error, doing: what(), path: path())
    }
}
