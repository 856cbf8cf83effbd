/// The file system of root in a directory of another user: gives what it creates to that user, before it has content.
package struct GivingFileSystem<Base: FileSystem>: ForwardingFileSystem {
    package let base: Base
    private let owner: FileOwner

    fileprivate init(_ base: Base, _ owner: FileOwner) {
        self.base = base
        self.owner = owner
    }

    package var userID: UInt32 { owner.user }
    package var forCallers: any FileSystem { base.forCallers }

    /// Creates nothing by a path: the directories on the way belong to anybody.
    package func openDirectory(path: String, creation: DirectoryCreation) throws(Errno) -> FileDescriptor {
        try base.openDirectory(path: path, creation: .never)
    }

    package func open(
        _ name: FileName, in directory: borrowing FileDescriptor, for use: OpenUse
    ) throws(Errno) -> FileDescriptor {
        let file = try base.open(name, in: directory, for: use)
        if case .updating = use {
            // The user may have put another file of root's in its place.
            let status = try base.status(of: file)
            guard status.owner.user == owner.user, status.links <= 1 else { throw .notPermitted }
        }
        guard case .creating = use else { return file }
        do throws(Errno) {
            try base.give(file, to: owner)
        } catch {
            try? base.remove(name, in: directory, directory: false)
            throw error
        }
        return file
    }

    package func copy(
        _ source: borrowing FileDescriptor, size: Int, as name: FileName, in directory: borrowing FileDescriptor,
        access: FileAccess
    ) throws(Errno) -> FileDescriptor {
        _ = try open(name, in: directory, for: .creating)
        do throws(Errno) {
            let file = try open(name, in: directory, for: .updating)
            try fill(file, from: source, size)
            return file
        } catch {
            try? base.remove(name, in: directory, directory: false)
            throw error
        }
    }

    package func makeDirectory(_ name: FileName, in directory: borrowing FileDescriptor) throws(Errno) {
        try base.makeDirectory(name, in: directory)
        do throws(Errno) {
            let made = try base.open(name, in: directory, for: .directory)
            // The user may have moved another directory of root to this place, to be given it.
            var isEmpty = true
            try base.list(made) { _, _ in
                isEmpty = false
                return false
            }
            guard isEmpty else { throw .directoryNotEmpty }
            try base.give(made, to: owner)
        } catch {
            try? base.remove(name, in: directory, directory: true)
            throw error
        }
    }
}

extension FileSystem {
    /// Returns the same file system for a process that writes as another user.
    package func giving(to owner: FileOwner) -> any FileSystem { GivingFileSystem(self, owner) }
}
