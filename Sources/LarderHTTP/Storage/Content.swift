import Larder
import LarderFiles
import LarderFoundation

/// A body: in memory, or in a temporary file when it is large.
enum Content: Sendable {
    case data(Data)
    case file(TemporaryFile)
    /// Some bytes of a file.
    case part(TemporaryFile, Range<Int>)
    /// Some bytes of a value on disk.
    case stored(StoredFile, Range<Int>)

    /// Bytes.
    var size: Int {
        switch self {
        case .data(let data): data.count
        case .file(let file): file.size
        case .part(_, let range), .stored(_, let range): range.count
        }
    }

    /// Reads all parts of a body, and keeps those of more than `spool.limit` bytes in a file.
    static func collect(_ body: HTTPBody, _ spool: Spool) async throws -> Content {
        var spool = spool
        for try await part in body { try await spool.append(part) }
        // A stream may end when its reader is cancelled, as if it were complete.
        try Task.checkCancellation()
        return spool.content
    }

    /// Returns some of the bytes.
    func part(_ range: Range<Int>) -> Content {
        switch self {
        case .data(let data):
            .data(Data(data[data.startIndex + range.lowerBound..<data.startIndex + range.upperBound]))
        case .file(let file): .part(file, range)
        case .part(let file, let own):
            .part(file, own.lowerBound + range.lowerBound..<own.lowerBound + range.upperBound)
        case .stored(let file, let own):
            .stored(file, own.lowerBound + range.lowerBound..<own.lowerBound + range.upperBound)
        }
    }

    /// The bytes, read from the file if need be.
    func data() async throws -> Data {
        switch self {
        case .data(let data): data
        case .file(let file): try await file.read(0..<file.size)
        case .part(let file, let range): try await file.read(range)
        case .stored(let file, let range): try await BlockingWork.run { try file.read(range) }
        }
    }

    /// Bytes of a part that are in memory at a time.
    private static let step = 1 << 20

    /// A file of these bytes alone: the one that holds them, or a new one.
    func file(in files: any FileSystem) async throws -> TemporaryFile {
        switch self {
        case .file(let file): return file
        case .data(let data):
            let file = try TemporaryFile(in: files)
            try await file.append(data)
            return file
        case .part(_, let range), .stored(_, let range):
            let file = try TemporaryFile(in: files)
            for start in stride(from: 0, to: range.count, by: Self.step) {
                try await file.append(part(start..<min(start + Self.step, range.count)).data())
            }
            return file
        }
    }
}

/// The part of a body that has arrived.
struct Spool: Sendable {
    /// Bytes that are kept in memory. The body goes to a file when there are more.
    var limit: Int
    /// Whether a body stays in memory when the file cannot be written: a disk that fails costs memory then, no answer.
    let mayStayInMemory: Bool
    let files: any FileSystem
    private var parts = Data()
    private var file: TemporaryFile?

    init(limit: Int, mayStayInMemory: Bool, in files: any FileSystem) {
        (self.limit, self.mayStayInMemory, self.files) = (limit, mayStayInMemory, files)
    }

    var content: Content { file.map(Content.file) ?? .data(parts) }

    mutating func append(_ part: Data) async throws {
        do {
            if let file { return try await file.append(part) }
            parts.append(part)
            guard parts.count > limit else { return }
            let new = try TemporaryFile(in: files)
            try await new.append(parts)
            (file, parts) = (new, Data())
        } catch let error as HTTPCacheError {
            guard mayStayInMemory else { throw error }
            if let written = file { (file, parts) = (nil, try await written.read(0..<written.size) + part) }
            limit = .max
        }
    }
}
