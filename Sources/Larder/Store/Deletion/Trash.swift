import LarderFiles

/// Empties the trash, into which clearing renames whole directories.
final class Trash: StoreOwner {
    /// Set while the trash holds the entries in use, because they could not be renamed back.
    let context: StoreContext
    private let holdsEntries = Flag()

    init(_ context: StoreContext) {
        self.context = context
    }

    /// Suspends deletion until `replaceDirectory`: the trash holds the entries in use.
    func keepEverything() {
        holdsEntries.set()
    }

    /// Notes that another directory is in use. Call it in a barrier of the disk queue.
    func replaceDirectory() {
        holdsEntries.set(false)
    }

    /// Deletes the content of the trash, slice by slice, in blocks of the disk queue: a clear moves directories in a
    /// barrier.
    func emptyInBackground(progress: (@Sendable (_ removed: Int, _ total: Int) -> Void)? = nil) {
        let sweep = Lock(TrashSweep())
        // A run with a progress handler is never merged with another.
        maintenance.begin(progress == nil ? .emptyTrash : nil) { [weak self] in
            guard let self else { return false }
            let hasMore = reporter.attempt { () throws(CacheError) in
                try disk.run { directory throws(CacheError) in
                    if holdsEntries.isSet { return false }
                    return try translating("empty the trash", at: path) { () throws(Errno) in
                        try sweep.withLock { sweep throws(Errno) in try sweep.deleteSome(of: directory) }
                    }
                }
            }
            guard let hasMore else { return false }
            let (removed, total) = sweep.withLock { ($0.removed, $0.total) }
            if let progress { reporter.events.run { progress(removed, total) } }
            return hasMore
        }
    }
}

/// One pass over the trash, a slice at a time. Foreign files and directories stay.
///
/// At any time one directory of the trash is open and one batch of its names is in memory, however much there is.
struct TrashSweep: Sendable {
    private static let slice = 256
    /// The number of names listed at a time; each batch reads its directory from the beginning.
    private static let batch = 4096

    /// The directories still to be emptied; nil before the first slice.
    private var directories: [UInt64]?
    /// Names in the last directory that are still to be deleted.
    private var names: [UInt64] = []
    /// Names in it that could not be deleted.
    private var stuck: Set<UInt64> = []
    private var failure: Errno?
    /// The deleted files, and the initial number of files.
    private(set) var removed = 0
    private(set) var total = 0
    private var remaining = 0

    /// Deletes one slice; false when nothing is left to do. An error is thrown at the end, so one undeletable file does
    /// not keep the others.
    mutating func deleteSome(of directory: StoreDirectory) throws(Errno) -> Bool {
        let fileSystem = directory.fileSystem
        let trash: FileDescriptor
        do {
            trash = try fileSystem.open(DirectoryLayout.trash.name, in: directory.root.file, for: .directory)
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
            if try deleteSegments(in: directory, fileSystem) { return true }
            try fileSystem.remove(.number(last), in: trash, directory: true)
        } catch .noEntry, .directoryNotEmpty {
            // The directory is already deleted, or holds foreign files.
        } catch {
            failure = error
        }
        directories?.removeLast()
        remaining += stuck.count
        // Another run may have deleted some.
        if directories?.isEmpty == true { removed = max(removed, total - remaining) }
        names = []
        stuck = []
        return true
    }

    /// Deletes a segment, and after the last one their directory; false when nothing is left to do.
    private mutating func deleteSegments(
        in entries: borrowing FileDescriptor, _ fileSystem: any FileSystem
    ) throws(Errno) -> Bool {
        let directory: FileDescriptor
        do throws(Errno) {
            directory = try fileSystem.open(SegmentTable.name, in: entries, for: .directory)
        } catch {
            // Something else may have the name.
            if [.noEntry, .notDirectory, .notRegular].contains(error) { return false }
            throw error
        }
        let numbers = try fileSystem.numbers(.regular, in: directory)
        if let number = numbers.first {
            try fileSystem.remove(.number(number), in: directory, directory: false)
            return true
        }
        try fileSystem.remove(SegmentTable.name, in: entries, directory: true)
        return false
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
                // The slice that deletes from this directory reports it.
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
