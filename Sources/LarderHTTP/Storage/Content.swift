import LarderFiles
import LarderFoundation

/// A body that has arrived: in memory, or in a temporary file when it is large.
enum Content: Sendable {
    case data(Data)
    case file(TemporaryFile)

    /// Bytes.
    var size: Int {
        switch self {
        case .data(let data): data.count
        case .file(let file): file.size
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
        return file.map(Content.file) ?? .data(parts)
    }

    /// The bytes, read from the file if need be.
    func data() async throws -> Data {
        switch self {
        case .data(let data): data
        case .file(let file): try await BlockingWork.run { try Data(contentsOf: file.url) }
        }
    }
}

/// A file in the system's temporary directory, mode 0600, deleted with the object.
final class TemporaryFile: Sendable {
    let url: URL
    private let name: FileName
    private let directory: SharedDescriptor
    private let file: SharedDescriptor
    private let written = Lock(0)
    private let isKept = Flag()

    /// Bytes.
    var size: Int { written.withLock { $0 } }

    init() throws {
        let parent = FileManager.default.temporaryDirectory
        let text = "larder-\(UUID().uuidString)"
        name = .text(text)
        url = parent.appendingPathComponent(text)
        do {
            directory = SharedDescriptor(try Self.files.openDirectory(path: parent.path, creation: .never))
            file = SharedDescriptor(try Self.files.open(name, in: directory.file, for: .creating))
        } catch {
            throw HTTPCacheError(.temporaryFile, "A temporary file in \(parent.path) could not be created: \(error).")
        }
    }

    deinit {
        if !isKept.isSet { try? Self.files.remove(name, in: directory.file, directory: false) }
    }

    /// Leaves the file to the caller.
    func keep() -> URL {
        isKept.set()
        return url
    }

    /// Appends to the file. Not to be called concurrently.
    func append(_ data: Data) async throws {
        let (file, offset) = (file, size)
        try await BlockingWork.run { [path = url.path] in
            do throws(Errno) {
                try Self.files.write([UInt8](data), to: file.file, at: offset)
            } catch {
                throw HTTPCacheError(.temporaryFile, "The temporary file \(path) could not be written: \(error).")
            }
        }
        written.withLock { $0 += data.count }
    }

    private static let files = PosixFileSystem()
}
