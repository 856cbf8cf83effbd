import Foundation
import LarderFiles

/// The names in a cache's directory, sorted by what they are.
struct RootListing {
    private(set) var isEmpty = true
    private(set) var hasForeign = false
    private(set) var hasEntries = false
    private(set) var hasTrash = false
    private(set) var manifests: [ManifestFormat] = []
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
        case (.manifest(let format), .regular): manifests.append(format)
        case (.journal(let generation), .regular): journals.append(generation)
        case (.temporaryManifest(let generation), .regular): temporaries.append(generation)
        case (.entries, .directory): hasEntries = true
        case (.trash, .directory): hasTrash = true
        default: hasForeign = true
        }
    }

    /// True when the directory is ours: by a record in a journal or manifest, or by the footer of an entry file; or because it
    /// holds nothing but our own names with nothing in them yet.
    func isCache(entries: SharedDescriptor?, _ fileSystem: any FileSystem) throws(CacheError) -> Bool {
        try translating("look at the directory", at: path) { () throws(Errno) in
            var isBare = !hasForeign
            for index in journals.map(DirectoryLayout.journal) + manifests.map(DirectoryLayout.manifest) {
                if try isIndex(index.name, fileSystem) { return true }
                isBare = false
            }
            var directories = entries.map { [$0] } ?? []
            if hasTrash { directories += try trashed(fileSystem) }
            for directory in directories {
                let files = try files(in: directory, fileSystem)
                for name in files where try isEntry(name, in: directory, fileSystem) { return true }
                if !files.isEmpty { isBare = false }
            }
            return isBare
        }
    }

    /// Looks for a record among the first lines of what has the name of a journal or manifest. One that is empty, cut within
    /// its first words or all zeros is what a kill or a power cut leaves of a new one.
    private func isIndex(_ name: FileName, _ fileSystem: any FileSystem) throws(Errno) -> Bool {
        guard let (file, size) = try fileSystem.openRegular(name, in: root.file) else { return false }
        var bytes = [UInt8](repeating: 0, count: min(size, 64 << 10))
        let count = try fileSystem.read(file.file, at: 0, into: &bytes)
        for line in bytes.prefix(count).split(separator: UInt8(ascii: "\n"), maxSplits: 16) {
            if case .record = Array(line).withBytes({ Line($0) }) { return true }
        }
        if name == DirectoryLayout.manifest(.propertyList).name, size <= PropertyListManifest.longest {
            bytes = [UInt8](repeating: 0, count: size)
            let count = try fileSystem.read(file.file, at: 0, into: &bytes)
            if PropertyListManifest.content(of: Data(bytes.prefix(count))) != nil { return true }
        }
        let header = Array(#"[{"larder":"#.utf8)
        let isManifest = zip(bytes, header).allSatisfy(==)
        let isJournal = zip(bytes, header.dropFirst()).allSatisfy(==)
        return isManifest || isJournal || bytes.prefix(header.count).allSatisfy { $0 == 0 }
    }

    private func trashed(_ fileSystem: any FileSystem) throws(Errno) -> [SharedDescriptor] {
        let trash = try fileSystem.open(DirectoryLayout.trash.name, in: root.file, for: .directory)
        var directories = [SharedDescriptor(trash)]
        for number in try fileSystem.numbers(.directory, in: directories[0].file) {
            let directory = try fileSystem.open(.number(number), in: directories[0].file, for: .directory)
            directories.append(SharedDescriptor(directory))
        }
        return directories
    }

    /// The names of all but directories.
    private func files(in directory: SharedDescriptor, _ fileSystem: any FileSystem) throws(Errno) -> [FileName] {
        var names: [FileName] = []
        try fileSystem.list(directory.file) { name, kind in
            if kind != .directory { names.append(name) }
            return true
        }
        return names
    }

    private func isEntry(
        _ name: FileName, in directory: SharedDescriptor, _ fileSystem: any FileSystem
    ) throws(Errno) -> Bool {
        guard case .number = name, let (file, size) = try fileSystem.openRegular(name, in: directory.file),
            size >= EntryFile.trailerLength
        else { return false }
        var trailer = [UInt8](repeating: 0, count: EntryFile.trailerLength)
        _ = try fileSystem.read(file.file, at: size - trailer.count, into: &trailer)
        return trailer.withBytes { EntryFile.recordCheck(inTrailer: $0) } != nil
    }
}
