import LarderFiles

/// The limit of a cache that was created by its name, and without one of its own: a tenth of what was free, but 16 MiB
/// to 1 GiB.
///
/// It is computed once and kept in the file `sizeLimit` of the directory: a decimal number of bytes, or `none`. So all
/// processes agree, a disk that fills does not shrink it, the loss of the index does not lift it, and whoever wants
/// another one can write it there. Until a process that creates it has written it, the file is empty.
struct DefaultSizeLimit {
    static let (least, most) = (16 << 20, 1 << 30)
    private static let none = "none"
    /// How long to wait for a process that is writing the file. Milliseconds.
    private static let patience = 100
    /// One thread at a time creates a limit.
    private static let turn = ProcessLock(())

    private let path: String
    private let fileSystem: any FileSystem

    init(path: String, _ fileSystem: any FileSystem) {
        (self.path, self.fileSystem) = (path, fileSystem)
    }

    /// The limit that was saved; nil: none, or no file says so.
    var saved: Int? {
        guard let root = try? fileSystem.openDirectory(path: path, creation: .never) else { return nil }
        return number(in: OwnedDescriptor(root))
    }

    /// Returns the limit that was saved. Creates a missing directory, and saves a limit in an empty one: before it is a
    /// cache that another process may open. Nil: the cache has none, or cannot be opened.
    func obtain(_ settings: StoreSettings) -> Int? {
        Self.turn.withLock { _ in
            guard
                let root = try? Store.openRoot(path, in: fileSystem, settings.durability).root,
                let writing = access(to: root, settings)
            else { return nil }
            if text(in: root) == "" {
                // Written by another process now, or never by one that was killed.
                _ = Backoff.wait(milliseconds: Self.patience) { text(in: root) != "" }
            }
            if let number = number(in: root) { return number }
            if text(in: root) != "" {
                guard text(in: root) == nil, let listing = try? RootListing(of: root, in: writing, path: path),
                    listing.isEmpty
                else { return nil }
            }
            // Some file systems do not tell what is free.
            let free = (try? fileSystem.freeSpace(of: root.file)).flatMap { $0 > 0 ? $0 : nil } ?? .max
            let limit = max(Self.least, min(Self.most, free / 10))
            save("\(limit)", in: root, writing, settings.durability)
            return number(in: root) ?? limit
        }
    }

    /// Notes that the cache has no limit, unless a file says something. Returns whether it did.
    func saveNone(_ settings: StoreSettings) -> Bool {
        guard let root = try? Store.openRoot(path, in: fileSystem, nil).root,
            let writing = access(to: root, settings)
        else { return false }
        return save(Self.none, in: root, writing, settings.durability)
    }

    /// Saves a limit again, in a directory that was deleted while the cache was open.
    func restore(_ limit: Int) {
        guard let root = try? Store.openRoot(path, in: fileSystem, nil).root else { return }
        save("\(limit)", in: root, fileSystem, .killSafe)
    }

    private func access(to root: OwnedDescriptor, _ settings: StoreSettings) -> (any FileSystem)? {
        try? Opener.access(to: root, in: fileSystem, asOwner: settings.writesAsOwner, path: path)
    }

    private func number(in root: OwnedDescriptor) -> Int? {
        text(in: root).flatMap { Int($0) }.flatMap { $0 < 0 ? nil : $0 }
    }

    /// The first word of the file; nil: it has none, or there is no file; "": nothing has been written to it, or that
    /// was lost in a power cut.
    private func text(in root: OwnedDescriptor) -> String? {
        guard let (file, _) = try? fileSystem.openRegular(DirectoryLayout.sizeLimit, in: root.file) else { return nil }
        var bytes = [UInt8](repeating: 0, count: 32)
        guard let count = try? fileSystem.read(file.file, at: 0, into: &bytes) else { return nil }
        if bytes.allSatisfy({ $0 == 0 }) { return "" }
        let word = String(decoding: bytes[..<count].prefix { $0 > UInt8(ascii: " ") }, as: UTF8.self)
        return word.isEmpty ? nil : word
    }

    /// Writes the file; false when it says something already, or cannot be written.
    @discardableResult
    private func save(
        _ text: String, in root: OwnedDescriptor, _ fileSystem: any FileSystem, _ durability: Durability
    ) -> Bool {
        do {
            let use: OpenUse = self.text(in: root) == "" ? .updating : .creating
            let file = try fileSystem.open(DirectoryLayout.sizeLimit, in: root.file, for: use)
            // Two processes that write at the same time may leave the end of a longer text behind the first line.
            try fileSystem.write(Array((text + "\n").utf8), to: file, at: 0)
            if durability == .powerSafe { try fileSystem.sync(file) }
            return true
        } catch {
            return false
        }
    }
}
