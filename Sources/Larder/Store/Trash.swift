import LarderFiles

/// Deletes what `removeAll` renamed into the trash, a slice at a time. What is not ours in there stays.
///
/// One directory of the trash is open at a time, and a slice of its names is in memory, however much there is.
struct Trash: Sendable {
    private static let slice = 256
    /// Names that are listed at a time: after each, a directory is read from its beginning.
    private static let batch = 4096

    /// The directories still to be emptied; nil before the first slice.
    private var directories: [UInt64]?
    /// Names of the last directory that are still to be deleted.
    private var names: [UInt64] = []
    /// Names of it that could not be deleted.
    private var stuck: Set<UInt64> = []
    private var failure: Errno?
    /// Files that are gone; and those that were there at first.
    private(set) var removed = 0
    private(set) var total = 0
    private var remaining = 0

    /// Deletes one slice; false when nothing is left to do. An error is told at the end: one file that stays must not
    /// keep the others.
    mutating func deleteSome(of volume: StoreDirectory) throws(Errno) -> Bool {
        let fileSystem = volume.fileSystem
        let trash: FileDescriptor
        do {
            trash = try fileSystem.open(DirectoryLayout.trash.name, in: volume.root.file, for: .directory)
        } catch .noEntry {
            return false
        }
        guard let last = directories?.last else {
            if directories != nil {
                if let failure { throw failure }
                return false
            }
            try listAll(in: trash, fileSystem)
            return true
        }
        do {
            let directory = try fileSystem.open(.number(last), in: trash, for: .directory)
            if names.isEmpty { try listNames(of: directory, fileSystem) }
            for name in names.suffix(Self.slice) { delete(name, in: directory, fileSystem) }
            names.removeLast(min(Self.slice, names.count))
            if !names.isEmpty { return true }
            try listNames(of: directory, fileSystem)
            if !names.isEmpty { return true }
            try fileSystem.remove(.number(last), in: trash, directory: true)
        } catch .noEntry, .directoryNotEmpty {
            // It is gone, or what is not ours stays in it.
        } catch {
            failure = error
        }
        directories?.removeLast()
        remaining += stuck.count
        // Some may have been deleted by another chore.
        if directories?.isEmpty == true { removed = max(removed, total - remaining) }
        names = []
        stuck = []
        return true
    }

    private mutating func delete(
        _ name: UInt64, in directory: borrowing FileDescriptor, _ fileSystem: any FileSystem
    ) {
        do {
            try fileSystem.remove(.number(name), in: directory, directory: false)
            removed += 1
        } catch .noEntry {
            removed += 1
        } catch {
            stuck.insert(name)
            failure = error
        }
    }

    private mutating func listAll(in trash: borrowing FileDescriptor, _ fileSystem: any FileSystem) throws(Errno) {
        let found = try fileSystem.numbers(.directory, in: trash)
        for name in found {
            do throws(Errno) {
                let directory = try fileSystem.open(.number(name), in: trash, for: .directory)
                try fileSystem.list(directory) { name, kind in
                    if case .number = name, kind == .regular { total += 1 }
                    return true
                }
            } catch {
                // The slice of that directory reports it.
            }
        }
        directories = found
    }

    private mutating func listNames(
        of directory: borrowing FileDescriptor, _ fileSystem: any FileSystem
    ) throws(Errno) {
        try fileSystem.list(directory) { name, kind in
            if case .number(let number) = name, kind == .regular, !stuck.contains(number) { names.append(number) }
            return names.count < Self.batch
        }
    }
}
