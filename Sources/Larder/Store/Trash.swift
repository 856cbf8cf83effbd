import LarderFiles

/// Deletes what `removeAll` renamed into the trash, a slice at a time. What is not ours in there stays.
struct Trash: Sendable {
    private static let slice = 256

    private var isListed = false
    /// The files still to delete, and the directories that are then empty.
    private var files: [(directory: SharedDescriptor, name: FileName)] = []
    private var directories: [FileName] = []
    private var failure: Errno?
    private(set) var removed = 0
    private(set) var total = 0

    /// Deletes one slice; false when nothing is left to do.
    mutating func deleteSome(of volume: Volume) throws(Errno) -> Bool {
        let fileSystem = volume.fileSystem
        let trash: FileDescriptor
        do {
            trash = try fileSystem.open(DirectoryLayout.trash.name, in: volume.root.file, for: .directory)
        } catch .noEntry {
            return false
        }
        if !isListed {
            try listAll(in: trash, fileSystem)
            isListed = true
            return true
        }
        for _ in 0..<min(Self.slice, files.count) {
            let file = files.removeLast()
            do {
                try fileSystem.remove(file.name, in: file.directory.file, directory: false)
                removed += 1
            } catch .noEntry {
                removed += 1
            } catch {
                // One file that stays must not keep the others.
                failure = error
            }
        }
        if !files.isEmpty { return true }
        for name in directories {
            do {
                try fileSystem.remove(name, in: trash, directory: true)
            } catch .directoryNotEmpty {
                // What is not ours stays.
                continue
            } catch .noEntry {}
        }
        if let failure { throw failure }
        return false
    }

    private mutating func listAll(in trash: borrowing FileDescriptor, _ fileSystem: any FileSystem) throws(Errno) {
        directories = try fileSystem.numbers(.directory, in: trash).map(FileName.number)
        for name in directories {
            let directory = SharedDescriptor(try fileSystem.open(name, in: trash, for: .directory))
            files += try fileSystem.numbers(.regular, in: directory.file).map { (directory, .number($0)) }
        }
        total = files.count
    }
}
