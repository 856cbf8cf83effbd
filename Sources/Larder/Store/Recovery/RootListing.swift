import LarderFiles
import LarderFoundation

/// The names in a cache's directory, sorted by their meaning.
struct RootListing {
    private(set) var isEmpty = true
    private(set) var hasForeign = false
    private(set) var hasEntries = false
    private(set) var hasTrash = false
    private(set) var hasPage = false
    private(set) var hasEvictions = false
    private(set) var hasTag = false
    private(set) var manifests: [ManifestFormat] = []
    private(set) var journals: [UInt64] = []
    private(set) var temporaries: [UInt64] = []

    private let root: OwnedDescriptor
    private let path: String

    /// `ignoringPage`: the page of a shared directory is known to be one, and does not count.
    init(
        of root: OwnedDescriptor, in fileSystem: any FileSystem, path: String, ignoringPage: Bool = false
    ) throws(CacheError) {
        self.root = root
        self.path = path
        var names: [(FileName, FileKind)] = []
        try translating("list the directory", at: path) { () throws(Errno) in
            try fileSystem.list(root.file) { name, kind in
                names.append((name, kind))
                return true
            }
        }
        for (name, kind) in names {
            if name == DirectoryLayout.tag { hasTag = true }
            if DirectoryLayout.ignored.contains(name) { continue }
            if !ignoringPage || DirectoryLayout(name) != .shared { add(name, kind) }
        }
        journals.sort()
    }

    /// Looks the manifests up by their names: a listing may miss one that is renamed meanwhile. A manifest that is
    /// found now contains the journals that were deleted before the listing.
    mutating func findManifests(_ fileSystem: any FileSystem) throws(CacheError) {
        manifests = []
        for format in [ManifestFormat.json, .propertyList] {
            try translating("find the manifest", at: path) { () throws(Errno) in
                do throws(Errno) {
                    let kind = try fileSystem.status(of: DirectoryLayout.manifest(format).name, in: root.file).kind
                    if kind == .regular { manifests.append(format) }
                } catch {
                    if error != .noEntry { throw error }
                }
            }
        }
    }

    private mutating func add(_ name: FileName, _ kind: FileKind) {
        isEmpty = false
        switch (DirectoryLayout(name), kind) {
        case (.manifest(let format), .regular): manifests.append(format)
        case (.journal(let generation), .regular): journals.append(generation)
        case (.temporaryManifest(let generation), .regular): temporaries.append(generation)
        case (.entries, .directory): hasEntries = true
        case (.trash, .directory): hasTrash = true
        case (.shared, .regular): hasPage = true
        case (.evictions, .regular): hasEvictions = true
        default: hasForeign = true
        }
    }

    /// True when the directory is ours. A record in a journal or manifest, or the footer of an entry file or a
    /// tombstone, is proof.
    ///
    /// A kill or a power cut in the first seconds of a cache may leave no proof. So a directory is also ours when it
    /// holds only our own names and its index files are blank. Its entries must be blank too, unless a file has the
    /// name of a journal, which no other program uses.
    func isCache(entries: OwnedDescriptor?, _ fileSystem: any FileSystem) throws(CacheError) -> Bool {
        try translating("examine the directory", at: path) { () throws(Errno) in
            var isBare = !hasForeign
            var failure: Errno?
            let learned = hasEvictions ? [DirectoryLayout.evictions] : []
            for index in journals.map(DirectoryLayout.journal) + manifests.map(DirectoryLayout.manifest) + learned {
                do throws(Errno) {
                    switch try evidence(in: index.name, fileSystem) {
                    case .proof: return true
                    case .blank: break
                    case .foreign: isBare = false
                    }
                } catch {
                    // This file proves nothing; another may.
                    if error != .io { throw error }
                    failure = error
                    isBare = false
                }
            }
            if hasPage, let (page, _) = try fileSystem.openRegular(DirectoryLayout.shared.name, in: root.file) {
                if try PeerPage.isPage(page.file, in: fileSystem) { return true }
                if try !isBlank(DirectoryLayout.shared.name, in: root, fileSystem) { isBare = false }
            }
            if let entries, try isProof(entries, &isBare, fileSystem) { return true }
            if hasTrash {
                // One after another: there may be more of them than descriptors.
                let trash = try fileSystem.open(DirectoryLayout.trash.name, in: root.file, for: .directory)
                for number in try fileSystem.numbers(.directory, in: trash) {
                    let directory = OwnedDescriptor(try fileSystem.open(.number(number), in: trash, for: .directory))
                    if try isProof(directory, &isBare, fileSystem) { return true }
                }
                if try !files(in: OwnedDescriptor(trash), fileSystem, most: 1).isEmpty { isBare = false }
            }
            // After a power cut, the tag may be the only whole file.
            if !isBare, hasTag, let (tag, _) = try? fileSystem.openRegular(DirectoryLayout.tag, in: root.file) {
                var bytes = [UInt8](repeating: 0, count: DirectoryLayout.tagContent.count + 1)
                let count = try fileSystem.read(tag.file, at: 0, into: &bytes)
                if bytes.prefix(count).elementsEqual(DirectoryLayout.tagContent) { return true }
            }
            if let failure, !isBare { throw failure }
            return isBare
        }
    }

    /// True when a directory has an entry or a tombstone; otherwise notes whether it holds any data that could be lost.
    private func isProof(
        _ directory: OwnedDescriptor, _ isBare: inout Bool, _ fileSystem: any FileSystem
    ) throws(Errno) -> Bool {
        // Usually one of the first is proof, whatever their number.
        for name in try files(in: directory, fileSystem, most: 16)
        where try isEntry(name, in: directory, fileSystem) { return true }
        let segments = try SegmentTable(of: directory, in: fileSystem).evidence()
        if segments == .proof { return true }
        if segments == .foreign { isBare = false }
        for name in try files(in: directory, fileSystem) {
            if try isEntry(name, in: directory, fileSystem) { return true }
            guard isBare, case .number = name else {
                isBare = false
                continue
            }
            if journals.isEmpty { isBare = try isBlank(name, in: directory, fileSystem) }
        }
        return false
    }

    /// Looks for a record among the first lines of a file with the name of a journal or manifest.
    private func evidence(in name: FileName, _ fileSystem: any FileSystem) throws(Errno) -> Evidence {
        guard let (file, size) = try fileSystem.openRegular(name, in: root.file) else { return .foreign }
        var bytes = [UInt8](repeating: 0, count: min(size, 64 << 10))
        bytes.removeLast(bytes.count - (try fileSystem.read(file.file, at: 0, into: &bytes)))
        for line in bytes.split(separator: UInt8(ascii: "\n"), maxSplits: 16) {
            if case .record = Array(line).withBytes({ Line($0) }) { return .proof }
        }
        if name == DirectoryLayout.manifest(.propertyList).name,
            let list = try PropertyListManifest.bytes(of: file.file, size: size, in: fileSystem),
            PropertyListManifest.content(of: list) != nil
        {
            return .proof
        }
        if name == DirectoryLayout.evictions.name, SavedRegrets.isBegun(bytes) { return .proof }
        // The length of a file may be on disk before its bytes.
        while bytes.last == 0 { bytes.removeLast() }
        // A later line may be, without the header. No text begins like this.
        if bytes.first == 0 { return .blank }
        for header in [#"[{"larder":"#, #"{"larder":"#].map({ Array($0.utf8) }) {
            // The header's check is damaged, but nothing else begins with these bytes.
            if bytes.starts(with: header) { return .proof }
            if header.starts(with: bytes) { return .blank }
        }
        return .foreign
    }

    private func isBlank(
        _ name: FileName, in directory: OwnedDescriptor, _ fileSystem: any FileSystem
    ) throws(Errno) -> Bool {
        guard let (file, size) = try fileSystem.openRegular(name, in: directory.file) else { return false }
        var bytes = [UInt8](repeating: 0, count: min(size, 64 << 10))
        _ = try fileSystem.read(file.file, at: 0, into: &bytes)
        return bytes.allSatisfy { $0 == 0 }
    }

    /// The names of all but directories, at most `most`.
    private func files(
        in directory: OwnedDescriptor, _ fileSystem: any FileSystem, most: Int = .max
    ) throws(Errno) -> [FileName] {
        var names: [FileName] = []
        try fileSystem.list(directory.file) { name, kind in
            if kind != .directory { names.append(name) }
            return names.count < most
        }
        return names
    }

    private func isEntry(
        _ name: FileName, in directory: OwnedDescriptor, _ fileSystem: any FileSystem
    ) throws(Errno) -> Bool {
        guard case .number = name else { return false }
        do throws(Errno) {
            guard let (file, size) = try fileSystem.openRegular(name, in: directory.file),
                size >= EntryFile.trailerLength
            else { return false }
            var trailer = [UInt8](repeating: 0, count: EntryFile.trailerLength)
            _ = try fileSystem.read(file.file, at: size - trailer.count, into: &trailer)
            return trailer.withBytes { EntryFile.isKnown(trailer: $0) }
        } catch {
            // An unreadable file proves nothing; another may.
            if [.io, .accessDenied, .notPermitted, .noEntry].contains(error) { return false }
            throw error
        }
    }
}
