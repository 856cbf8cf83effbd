package import LarderFiles
public import LarderFoundation

extension DiskCache {
    /// Stores the content of a file. O(size). Where the file system can share blocks (APFS, btrfs, xfs), no byte of a
    /// large file is copied; it is only read once for its checksum.
    ///
    /// Only the content is stored: the file's mode, flags and attributes are not. The checksum is that of the copy, so
    /// a file that changes meanwhile is stored as it was copied, up to its size at the beginning. The file itself is
    /// not changed.
    ///
    /// - Parameters:
    ///   - url: A regular file, or a symbolic link to one.
    ///   - key: Any string of at most 64 KiB.
    ///   - ttl: How long the value is kept. Zero or less removes the key. Default: the configured life.
    ///   - metadata: Kept with the value and readable without it. Default: none.
    ///   - tags: As for `setData(_:forKey:ttl:metadata:tags:)`. Default: none.
    /// - Throws: `.notFound` when there is no such file; and the errors of `setData(_:forKey:ttl:metadata:tags:)`. The
    ///   old value then remains.
    public func copyFile(
        at url: URL, forKey key: String, ttl: TimeToLive = .default, metadata: [String: String] = [:],
        tags: [String] = []
    ) throws(CacheError) {
        let store = try openStore
        let key = try checked(key)
        let now = now
        let (file, size) = try openSource(url)
        guard let life = ttl.life(from: now, default: configuration.defaultTTL) else {
            _ = try store.remove(key, at: now)
            return
        }
        _ = try store.setCopy(
            of: file, size: size,
            SetRequest(key: key, life: life, attachments: try attachments(metadata, tags), now: now))
    }

    /// Writes the value of a key to a file, verified against its checksum before the file appears. O(size).
    ///
    /// An existing file is replaced atomically: a half-written one is never visible, though a killed process may leave
    /// a hidden `.larder-` file beside it. The new file has the default mode of new files. Anything that is not a
    /// regular file (a folder, device, FIFO, socket or symbolic link) is never replaced.
    ///
    /// - Parameters:
    ///   - key: Any string.
    ///   - url: The file to write, in an existing directory.
    /// - Returns: False for a miss; nothing is written then.
    /// - Throws: `.noSpace`, `.closed`, `.invalidName`; `.io`, also where `url` is not a regular file. What exists is
    ///   then unchanged.
    public func exportFile(forKey key: String, to url: URL) throws(CacheError) -> Bool {
        try exportEntry(forKey: key, to: url, access: .everybody) != nil
    }

    /// Does the same, and returns the entry whose value it wrote; nil for a miss.
    package func exportEntry(forKey key: String, to url: URL, access: FileAccess) throws(CacheError) -> CacheEntry? {
        let store = try openStore
        let path = url.path
        let name = String(decoding: path.utf8.split(separator: UInt8(ascii: "/")).last ?? [], as: UTF8.self)
        guard url.isFileURL, !["", ".", ".."].contains(name), !path.utf8.contains(0) else {
            throw CacheError(
                code: .invalidName, message: "A value can only be exported to a file URL.", path: url.absoluteString)
        }
        let above = String(decoding: path.utf8.dropLast(name.utf8.count), as: UTF8.self)
        let parent = above.isEmpty ? "." : above
        let directory = try translating("open the directory", at: parent) { () throws(Errno) in
            OwnedDescriptor(try store.fileSystem.openDirectory(path: parent, creation: .never))
        }
        let target = Store.ExportTarget(name: .text(name), directory: directory, path: path, access: access)
        // A folder makes the renaming fail.
        if (try? store.fileSystem.status(of: target.name, in: directory.file))?.kind == .other {
            throw CacheError(code: .io, message: "An export replaces only a regular file, and no link.", path: path)
        }
        let now = now
        return try store.export(self.key(key), to: target, at: now).map { CacheEntry($0, at: now) }
    }

    /// Opens a value to read parts of it; nil for a miss. The whole is verified first, in pieces, unless `isVerified`
    /// says that it has been. O(size) then, else O(1).
    package func openValue(
        forKey key: String, unless isVerified: (StoredFile.Identity) -> Bool
    ) -> StoredFile? {
        let now = now
        guard let store = readableStore,
            let (entry, source, status) = store.open(
                self.key(key), at: now, unless: { isVerified(StoredFile.Identity($0, $1)) })
        else { return nil }
        return StoredFile(
            identity: StoredFile.Identity(entry, status), entry: CacheEntry(entry, at: now), source: source,
            fileSystem: store.fileSystem)
    }

    /// Measures a file that claims to be empty, as those in Linux's `/proc` do.
    private func unknownSize(of file: OwnedDescriptor) throws(Errno) -> Int {
        var bytes = [UInt8](repeating: 0, count: Store.smallFile + 1)
        let count = try store.fileSystem.read(file.file, at: 0, into: &bytes)
        if count > Store.smallFile { throw .invalid }
        return count
    }

    private func openSource(_ url: URL) throws(CacheError) -> (file: OwnedDescriptor, size: Int) {
        guard url.isFileURL, !url.path.utf8.contains(0) else {
            throw CacheError(
                code: .invalidName, message: "A value can only be copied from a file URL.", path: url.absoluteString)
        }
        do {
            let file = OwnedDescriptor(try store.fileSystem.openFile(path: url.path))
            let status = try store.fileSystem.status(of: file.file)
            if status.kind == .regular {
                return (file, status.size > 0 ? status.size : try unknownSize(of: file))
            }
        } catch .noEntry {
            throw CacheError(
                code: .notFound, message: "There is no such file.", path: url.path, errno: Errno.noEntry.rawValue)
        } catch {
            throw CacheError(error, doing: "open the file", path: url.path)
        }
        throw CacheError(code: .io, message: "Only a regular file can be copied in.", path: url.path)
    }
}

/// A value on disk that was opened: it stays readable when it is replaced or removed.
package struct StoredFile: Sendable {
    /// Another one for other bytes, also where somebody else has written in the file.
    package struct Identity: Hashable, Sendable {
        private let number: UInt64
        fileprivate let checksum: UInt64
        private let stored: Timestamp
        private let changed: Int64

        init(_ entry: IndexEntry, _ status: FileStatus) {
            (number, checksum, stored) = (entry.file.number, entry.checksum, entry.stored)
            changed = status.changed
        }
    }

    package let identity: Identity
    package let entry: CacheEntry
    let source: StoreDirectory.Source
    let fileSystem: any FileSystem

    /// Reads some of the bytes.
    package func read(_ range: Range<Int>) throws(CacheError) -> Data {
        if let bytes = source.bytes { return Data(bytes[range]) }
        var data = Data(count: range.count)
        let result = data.withUnsafeMutableBytes { bytes in
            Result { () throws(Errno) in try fileSystem.read(source.file.file, at: range.lowerBound, into: bytes) }
        }
        let count = try translating("read a value", at: entry.key) { () throws(Errno) in try result.get() }
        if count < range.count { throw CacheError(code: .io, message: "The file of a value was cut.", path: entry.key) }
        return data
    }

    /// Reads all of it, and returns whether it is what was stored.
    package func isIntact() throws(CacheError) -> Bool {
        if source.bytes != nil { return true }
        return try translating("read a value", at: entry.key) { () throws(Errno) in
            try fileSystem.checksum(of: source.file.file, size: entry.payloadSize) == identity.checksum
        }
    }
}
