import LarderFiles

/// The names in a cache's directory, sorted by what they are.
struct RootListing {
    private(set) var isEmpty = true
    private(set) var hasForeign = false
    private(set) var hasEntries = false
    private(set) var hasTrash = false
    private(set) var hasManifest = false
    private(set) var journals: [UInt64] = []
    private(set) var temporaries: [UInt64] = []

    private let root: SharedDescriptor
    private let path: String

    init(of root: SharedDescriptor, in fileSystem: any FileSystem, path: String) throws(CacheError) {
        self.root = root
        self.path = path
        var names: [(FileName, FileKind)] = []
        try translating("list the directory", at: path) { () throws(Errno) in
            try fileSystem.list(root.file) { name, kind in
                names.append((name, kind))
                return true
            }
        }
        for (name, kind) in names where !DirectoryLayout.ignored.contains(name) { add(name, kind) }
        journals.sort()
    }

    private mutating func add(_ name: FileName, _ kind: FileKind) {
        isEmpty = false
        switch (DirectoryLayout(name), kind) {
        case (.manifest, .regular): hasManifest = true
        case (.journal(let generation), .regular): journals.append(generation)
        case (.temporaryManifest(let generation), .regular): temporaries.append(generation)
        case (.entries, .directory): hasEntries = true
        case (.trash, .directory): hasTrash = true
        default: hasForeign = true
        }
    }

    /// True when the directory is ours: by a journal, by the header of a manifest, by an entry file, or because nothing but
    /// our own directories is in it.
    func isCache(entries: SharedDescriptor?, _ fileSystem: any FileSystem) throws(CacheError) -> Bool {
        if !journals.isEmpty || !hasForeign && !hasManifest { return true }
        return try translating("look at the directory", at: path) { () throws(Errno) in
            if try hasManifestHeader(fileSystem) { return true }
            guard let entries else { return false }
            return try hasEntryFile(in: entries, fileSystem)
        }
    }

    private func hasManifestHeader(_ fileSystem: any FileSystem) throws(Errno) -> Bool {
        guard hasManifest,
            let (file, size) = try fileSystem.openRegular(DirectoryLayout.manifest.name, in: root.file)
        else { return false }
        let start = Array(#"[{"larder":"#.utf8)
        var bytes = [UInt8](repeating: 0, count: min(size, start.count))
        return try fileSystem.read(file.file, at: 0, into: &bytes) == start.count && bytes == start
    }

    private func hasEntryFile(in entries: SharedDescriptor, _ fileSystem: any FileSystem) throws(Errno) -> Bool {
        var names: [FileName] = []
        try fileSystem.list(entries.file) { name, kind in
            if case .number = name, kind == .regular { names.append(name) }
            return true
        }
        for name in names {
            guard let (file, size) = try fileSystem.openRegular(name, in: entries.file),
                size >= EntryFile.trailerLength
            else { continue }
            var trailer = [UInt8](repeating: 0, count: EntryFile.trailerLength)
            _ = try fileSystem.read(file.file, at: size - trailer.count, into: &trailer)
            if trailer.withBytes({ EntryFile.recordCheck(inTrailer: $0) }) != nil { return true }
        }
        return false
    }
}
