import LarderFoundation

/// A body: in memory, or in a temporary file when it is large.
enum Content: Sendable {
    case data(Data)
    case file(TemporaryFile)
    /// Some bytes of a file.
    case part(TemporaryFile, Range<Int>)

    /// Bytes.
    var size: Int {
        switch self {
        case .data(let data): data.count
        case .file(let file): file.size
        case .part(_, let range): range.count
        }
    }

    /// Reads all parts of a body. One of more than `limit` bytes is written to a file.
    static func collect(_ body: HTTPBody, limit: Int) async throws -> Content {
        var parts = Data()
        var file: TemporaryFile?
        for try await part in body {
            if let file {
                try await file.append(part)
            } else {
                parts.append(part)
                if parts.count > limit {
                    file = try TemporaryFile()
                    try await file?.append(parts)
                    parts = Data()
                }
            }
        }
        // A stream may end when its reader is cancelled, as if it were complete.
        try Task.checkCancellation()
        return file.map(Content.file) ?? .data(parts)
    }

    /// Returns some of the bytes.
    func part(_ range: Range<Int>) -> Content {
        switch self {
        case .data(let data):
            .data(Data(data[data.startIndex + range.lowerBound..<data.startIndex + range.upperBound]))
        case .file(let file): .part(file, range)
        case .part(let file, let own):
            .part(file, own.lowerBound + range.lowerBound..<own.lowerBound + range.upperBound)
        }
    }

    /// The bytes, read from the file if need be.
    func data() async throws -> Data {
        switch self {
        case .data(let data): data
        case .file(let file): try await file.read(0..<file.size)
        case .part(let file, let range): try await file.read(range)
        }
    }

    /// Bytes of a part that are in memory at a time.
    private static let step = 1 << 20

    /// A file of these bytes alone: the one that holds them, or a new one.
    func file() async throws -> TemporaryFile {
        switch self {
        case .file(let file): return file
        case .data(let data):
            let file = try TemporaryFile()
            try await file.append(data)
            return file
        case .part(let whole, let range):
            let file = try TemporaryFile()
            for start in stride(from: range.lowerBound, to: range.upperBound, by: Self.step) {
                try await file.append(whole.read(start..<min(start + Self.step, range.upperBound)))
            }
            return file
        }
    }
}
