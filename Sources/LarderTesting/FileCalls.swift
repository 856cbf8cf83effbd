import LarderFiles

/// Kinds of file-system calls, to which a fault can be limited.
public struct FileCalls: Hashable, Sendable {
    let operations: Set<MemoryFileSystem.Operation>

    /// Every call.
    public static let all = FileCalls(operations: Set(MemoryFileSystem.Operation.allCases))
    /// The calls that find, open, list or read files inside the cache's directory.
    public static let reads = FileCalls(operations: [.open, .status, .read, .list])
    /// The calls that create, write, sync, rename or remove files and directories.
    public static let writes = FileCalls(
        operations: [.create, .write, .truncate, .allocate, .sync, .makeDirectory, .rename, .remove])
}

/// The numbers of file-system calls that caches have made.
public struct FileCallCounts: Hashable, Sendable {
    let counts: [MemoryFileSystem.Operation: Int]

    /// All calls.
    public var total: Int { self[.all] }
    /// Those that find, open, list or read files.
    public var reads: Int { self[.reads] }
    /// Those that create, write, sync, rename or remove files and directories.
    public var writes: Int { self[.writes] }

    private subscript(calls: FileCalls) -> Int {
        calls.operations.reduce(0) { $0 + (counts[$1] ?? 0) }
    }
}

extension FileCallCounts: CustomStringConvertible {
    /// The total, and the parts that are reads and writes.
    public var description: String { "\(total) calls: \(reads) reads, \(writes) writes" }
}

/// The error of a file-system call that fails.
public struct TestFault: Hashable, Sendable {
    let error: Errno

    /// The disk does not answer (EIO). Larder's error is `.io`.
    public static let io = TestFault(error: .io)
    /// The disk is full (ENOSPC). Larder's error is `.noSpace`.
    public static let noSpace = TestFault(error: .noSpace)
    /// The process lacks permission (EACCES). Larder's error is `.io`.
    public static let permissionDenied = TestFault(error: .accessDenied)
    /// The process has too many files open (EMFILE). Larder's error is `.io`.
    public static let tooManyOpenFiles = TestFault(error: .tooManyOpenFiles)
}

extension TestFault: CustomStringConvertible {
    /// The system's text for the error.
    public var description: String { error.description }
}
