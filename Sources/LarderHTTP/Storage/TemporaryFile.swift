import LarderFiles
import LarderFoundation

/// A file in the system's temporary directory, mode 0600, deleted with the object.
final class TemporaryFile: Sendable {
    let url: URL
    private let name: FileName
    private let directory: OwnedDescriptor
    /// To write to; nil when the content is there already.
    private let file: OwnedDescriptor?
    private let written: Lock<Int>
    private let isKept = Flag()
    private let files: any FileSystem

    /// Bytes.
    var size: Int { written.withLock { $0 } }

    /// Creates an empty file.
    init(in files: any FileSystem) throws {
        self.files = files
        (name, url) = Self.newName()
        do {
            directory = try Self.openParent(of: url, files)
            file = OwnedDescriptor(try files.open(name, in: directory.file, for: .creating))
        } catch {
            throw HTTPCacheError(.temporaryFile, "The temporary file \(url.path) could not be created: \(error).")
        }
        written = Lock(0)
    }

    /// A file that `write` creates at a URL, mode 0600; nil when it returns nil. `write` returns its size.
    init?(in files: any FileSystem, _ write: (URL) throws -> Int?) throws {
        self.files = files
        (name, url) = Self.newName()
        directory = try Self.openParent(of: url, files)
        guard let size = try write(url) else { return nil }
        file = nil
        written = Lock(size)
    }

    private static func newName() -> (FileName, URL) {
        let text = "larder-\(UUID().uuidString)"
        return (.text(text), FileManager.default.temporaryDirectory.appendingPathComponent(text))
    }

    private static func openParent(of url: URL, _ files: any FileSystem) throws(Errno) -> OwnedDescriptor {
        let path = url.deletingLastPathComponent().path
        return OwnedDescriptor(try files.openDirectory(path: path, creation: .never))
    }

    deinit {
        if !isKept.isSet { try? files.remove(name, in: directory.file, directory: false) }
    }

    /// Leaves the file to the caller.
    func keep() -> URL {
        isKept.set()
        return url
    }

    /// Appends to the file. Not to be called concurrently.
    func append(_ data: Data) async throws {
        guard let file else { preconditionFailure("the content is there already") }
        let offset = size
        try await BlockingWork.run { [files, path = url.path] in
            do throws(Errno) {
                try files.write([UInt8](data), to: file.file, at: offset)
            } catch {
                throw HTTPCacheError(.temporaryFile, "The temporary file \(path) could not be written: \(error).")
            }
        }
        written.withLock { $0 += data.count }
    }

    /// Reads some bytes of the file.
    func read(_ range: Range<Int>) async throws -> Data {
        try await BlockingWork.run { [files, name, directory, path = url.path] in
            var bytes = [UInt8](repeating: 0, count: range.count)
            do throws(Errno) {
                let file = try files.open(name, in: directory.file, for: .reading)
                let count = try files.read(file, at: range.lowerBound, into: &bytes)
                if count < range.count { throw Errno.io }
            } catch {
                throw HTTPCacheError(.temporaryFile, "The temporary file \(path) could not be read: \(error).")
            }
            return Data(bytes)
        }
    }
}
