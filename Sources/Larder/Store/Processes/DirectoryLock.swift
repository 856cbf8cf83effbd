import LarderFiles

/// The hold of this process on a directory, released with the object.
///
/// The release is explicit: a child process that is being started holds a copy of the descriptor until its exec, and
/// would keep the lock.
final class DirectoryLock: Sendable {
    private let descriptor: OwnedDescriptor
    /// Refuses changes when this process was only let in to read.
    let fileSystem: any FileSystem
    /// Others may read beside this process, and nobody writes.
    let isForReading: Bool
    private let joined: Membership?
    private let processID: Int32

    private init(
        _ descriptor: OwnedDescriptor, _ membership: Membership?, in fileSystem: any FileSystem,
        isForReading: Bool = false
    ) {
        self.descriptor = descriptor
        joined = membership
        self.fileSystem = fileSystem
        self.isForReading = isForReading
        processID = fileSystem.processID
    }

    deinit {
        release()
    }

    /// False in a forked child: it is the parent's lock.
    var isOwn: Bool { fileSystem.processID == processID }

    /// Releases the lock before the object is.
    func release() {
        joined?.leave()
        if isOwn { fileSystem.unlock(descriptor.file) }
    }

    /// True when an occupant may take it over: it is not a place among several processes.
    var isAlone: Bool { joined == nil }

    /// The place among the processes of the directory: for each occupant another one, if it has that alone.
    func membership(_ identity: FileIdentity, _ path: String) throws(CacheError) -> Membership {
        if let joined { return joined }
        return try Membership(aloneIn: identity, fileSystem, path: path)
    }

    /// Locks a directory for this process alone; nil when another process has it open.
    ///
    /// Through a separate descriptor, so that the registry decides when the lock ends, not the last reader's reference
    /// to the directory.
    static func alone(_ root: OwnedDescriptor, in fileSystem: any FileSystem) throws(Errno) -> DirectoryLock? {
        let own = OwnedDescriptor(try fileSystem.open(.text("."), in: root.file, for: .directory))
        guard try fileSystem.lock(own.file) else { return nil }
        return DirectoryLock(own, nil, in: fileSystem)
    }

    /// Joins the processes that share a directory. The one that is first must call `Membership.finishJoining`.
    ///
    /// `check` throws when the directory is not a cache. Without a page it is called first. Where this process may not
    /// write, it reads alone or beside others that only read.
    static func shared(
        _ root: OwnedDescriptor, _ identity: FileIdentity, in fileSystem: any FileSystem, path: String,
        checkingCache check: () throws(CacheError) -> Void
    ) throws(CacheError) -> DirectoryLock {
        let joining = Joining(root: root, identity: identity, fileSystem: fileSystem, path: path)
        if try !joining.hasPage {
            do throws(CacheError) {
                try check()
            } catch {
                // Another process may have begun the cache meanwhile, be storing its first value, or have deleted a
                // file that was to be examined.
                guard error.code == .notACache || error.errno == Errno.noEntry.rawValue, try joining.hasPage else {
                    throw error
                }
            }
        }
        do throws(Errno) {
            try fileSystem.requireWritable(root.file)
        } catch {
            if [.readOnly, .accessDenied].contains(error) {
                let refusing = fileSystem.refusingChanges(with: error)
                return DirectoryLock(try joining.lockForReading(), nil, in: refusing, isForReading: true)
            }
        }
        return try joining.join { own, membership in
            DirectoryLock(own, membership, in: fileSystem)
        }
    }
}

/// The steps of joining.
///
/// The lock of the directory keeps out processes that want it for themselves. A process that creates the page, or finds
/// nobody in it, must first prove, by taking that lock alone, that nobody is there. The others wait for their turn
/// without it.
private struct Joining {
    /// How long to wait for a process that is opening the directory, and for one that has it alone. Milliseconds.
    private static let (longestWait, shortWait) = (10_000, 100)

    let root: OwnedDescriptor
    let identity: FileIdentity
    let fileSystem: any FileSystem
    let path: String

    fileprivate var hasPage: Bool {
        get throws(CacheError) {
            try translating("open the shared page", at: path) { () throws(Errno) in
                do throws(Errno) {
                    guard let (file, _) = try fileSystem.openRegular(DirectoryLayout.shared.name, in: root.file) else {
                        return false
                    }
                    return try PeerPage.isPage(file.file, in: fileSystem)
                } catch {
                    // `join` replaces the file of another user, if the directory is a cache.
                    if error == .noEntry || error == .accessDenied { return false }
                    throw error
                }
            }
        }
    }

    @discardableResult
    private func checkDisk() throws(CacheError) -> PagePlace {
        let place = try translating("examine the disk", at: path) { () throws(Errno) in
            try fileSystem.pagePlace(of: root.file)
        }
        if let place { return place }
        throw CacheError(
            code: .unsupportedDisk,
            message: """
                The cache is not on a disk that several processes can share: ext4, XFS, Btrfs, tmpfs, overlayfs, APFS \
                or HFS+. Use one of those, or a directory for each process; where one process is enough, the \
                setting `sharing: .exclusive`.
                """,
            path: path)
    }

    func join(_ make: (OwnedDescriptor, Membership) -> DirectoryLock) throws(CacheError) -> DirectoryLock {
        let place = try checkDisk()
        var found: DirectoryLock?
        var isPageLost = false
        var hasWaited = false
        var isPageExposed = false
        let isDone = try Backoff.wait(milliseconds: Self.shortWait) { () throws(CacheError) in
            let file: OwnedDescriptor?
            do throws(CacheError) {
                file = try openPage()
            } catch {
                guard error.errno == Errno.accessDenied.rawValue else { throw error }
                isPageExposed = try !createPage(replacing: true)
                return false
            }
            guard let file else {
                isPageLost = try !createPage(replacing: false)
                return false
            }
            guard try isSafe(file) else {
                isPageExposed = try !createPage(replacing: true)
                return false
            }
            try awaitTurn(file)
            // Another process may have replaced it meanwhile.
            guard try isCurrent(file), let (own, living) = try lock(beside: file, &hasWaited), try isCurrent(file)
            else {
                return false
            }
            found = make(own, try member(file, in: place, beside: living))
            return true
        }
        if isDone, let found { return found }
        if isPageExposed {
            throw CacheError(
                code: .directoryInUse,
                message: """
                    Others than the owner of the cache may change its file `shared`. Close the cache in all processes, \
                    and open it again, with a new file.
                    """,
                path: path)
        }
        if !isPageLost, !hasWaited { throw CacheError.directoryInUse(path, byOneAlone: true) }
        throw CacheError(
            code: .directoryInUse,
            message: """
                The file `shared` of the cache was deleted or emptied while processes use it. Close the cache in all \
                of them, and open it again.
                """,
            path: path)
    }

    /// Waits until no other process joins. From here on, closing the file ends the turn.
    private func awaitTurn(_ page: OwnedDescriptor) throws(CacheError) {
        let isFree = try Backoff.wait(milliseconds: Self.longestWait) { () throws(CacheError) in
            try translating("lock the shared page", at: path) { () throws(Errno) in
                try fileSystem.lock(byte: PageLocks.joining, of: page.file)
            }
        }
        if isFree { return }
        throw CacheError(
            code: .directoryInUse, message: "Another process has been opening the cache for too long.", path: path)
    }

    private func isCurrent(_ page: OwnedDescriptor) throws(CacheError) -> Bool {
        try translating("examine the shared page", at: path) { () throws(Errno) in
            do throws(Errno) {
                let named = try fileSystem.status(of: DirectoryLayout.shared.name, in: root.file).identity
                return try named == fileSystem.status(of: page.file).identity
            } catch {
                if error == .noEntry { return false }
                throw error
            }
        }
    }

    /// Locks the directory in common with others; nil when a process has it alone. A process that seems to be the first
    /// proves it by taking the lock alone: another file may have been put into the place of the page.
    ///
    /// Returns the token of the living, too; nil: there are none.
    private func lock(
        beside page: OwnedDescriptor, _ hasWaited: inout Bool
    ) throws(CacheError) -> (OwnedDescriptor, living: UInt64?)? {
        try translating("lock the directory", at: path) { () throws(Errno) -> (OwnedDescriptor, UInt64?)? in
            let living = try fileSystem.lockedByte(in: PageLocks.lanes, of: page.file).map(PageLocks.token)
            let own = OwnedDescriptor(try fileSystem.open(.text("."), in: root.file, for: .directory))
            if living == nil {
                // The process that has created a page without content still has the lock for a moment, however long. One
                // that has it for longer lost the content of its page.
                let isEmpty = try fileSystem.status(of: page.file).size == 0
                let isNew = isEmpty && !hasWaited
                let isFree = try Backoff.wait(milliseconds: isNew ? Self.longestWait : 0) { () throws(Errno) in
                    try fileSystem.lock(own.file)
                }
                guard isFree else {
                    hasWaited = hasWaited || isNew
                    return nil
                }
                // Never converted: somebody could come in between unnoticed. Nobody joins meanwhile.
                fileSystem.unlock(own.file)
            }
            return try fileSystem.lock(own.file, shared: true) ? (own, living) : nil
        }
    }

    /// Locks the directory in common with others that read; no process that writes can join meanwhile.
    func lockForReading() throws(CacheError) -> OwnedDescriptor {
        try checkDisk()
        var found: OwnedDescriptor?
        let isFree = try Backoff.wait(milliseconds: Self.shortWait) { () throws(CacheError) in
            try translating("lock the directory", at: path) { () throws(Errno) in
                let own = OwnedDescriptor(try fileSystem.open(.text("."), in: root.file, for: .directory))
                guard try fileSystem.lock(own.file, shared: true), try !hasMembers else { return false }
                found = own
                return true
            }
        }
        if isFree, let found { return found }
        throw CacheError(
            code: .directoryInUse,
            message: """
                This process may only read the cache, and another one has it open and may change it. Close it there, \
                or use another directory.
                """,
            path: path)
    }

    /// Whether a process has joined, or is joining.
    private var hasMembers: Bool {
        get throws(Errno) {
            do throws(Errno) {
                let page = try fileSystem.openRegular(DirectoryLayout.shared.name, in: root.file)?.file
                return try page.map { page throws(Errno) in
                    try fileSystem.lockedByte(in: PageLocks.joining..<PageLocks.lanes.upperBound, of: page.file) != nil
                } ?? false
            } catch .noEntry {
                return false
            }
        }
    }

    /// False when another user may truncate the page, which would end the processes that have it mapped. One that has
    /// no name any more is found out later.
    private func isSafe(_ page: OwnedDescriptor) throws(CacheError) -> Bool {
        try translating("examine the shared page", at: path) { () throws(Errno) in
            try PeerPage.isSafe(page.file, in: fileSystem)
        }
    }

    /// Creates the page; false when somebody is there.
    private func createPage(replacing: Bool) throws(CacheError) -> Bool {
        try translating("create the shared page", at: path) { () throws(Errno) in
            let own = OwnedDescriptor(try fileSystem.open(.text("."), in: root.file, for: .directory))
            guard try fileSystem.lock(own.file) else { return false }
            defer { fileSystem.unlock(own.file) }
            do throws(Errno) {
                let name = DirectoryLayout.shared.name
                if replacing { try fileSystem.remove(name, in: root.file, directory: false) }
                _ = try fileSystem.open(name, in: root.file, for: .creating)
            } catch {
                if error != .exists, !replacing || error != .noEntry { throw error }
            }
            return true
        }
    }

    private func openPage() throws(CacheError) -> OwnedDescriptor? {
        try translating("open the shared page", at: path) { () throws(Errno) in
            do throws(Errno) {
                return try fileSystem.openRegular(DirectoryLayout.shared.name, in: root.file, for: .updating)?.file
            } catch {
                if error == .noEntry { return nil }
                throw error
            }
        }
    }

    private func member(
        _ file: OwnedDescriptor, in place: PagePlace, beside living: UInt64?
    ) throws(CacheError) -> Membership {
        let origin = try translating("examine the shared page", at: path) { () throws(Errno) in
            PeerPage.Origin(
                inode: try fileSystem.status(of: file.file).identity.inode, boot: fileSystem.boot)
        }
        let pages = PageFile(fileSystem: fileSystem, shared: file, place: place)
        let found: (page: PeerPage, memory: PageFile.Memory?)
        var proof: LeftPage.Proof?
        if let living {
            found = try find(pages, origin, of: living)
        } else {
            proof = LeftPage(pages, origin, in: root).bury()
            found = try make(pages, origin)
            let token = found.memory == nil ? 0 : PageLocks.tokens.lowerBound + Simulation.randomNumber() % Self.tokens
            found.page.begin(origin, token: token)
            // Before anything proves the index: a process may be killed before it knows more.
            if let proof {
                found.page.raiseNumbers(to: proof.lastNumber)
                found.page.noteSaved(proof.savedGeneration)
                if proof.lacksRecords { found.page.noteUnrecorded() }
            }
        }
        let files = Membership.Files(page: file, root: root, memory: found.memory)
        let membership = try translating("join the cache", at: path) { () throws(Errno) in
            try Membership(found.page, files, identity, in: fileSystem, isFirst: living == nil, proof)
        }
        guard let membership else {
            throw CacheError(
                code: .directoryInUse, message: "\(PeerPage.laneCount) processes have the cache open.", path: path)
        }
        return membership
    }

    private static let tokens = PageLocks.tokens.upperBound - PageLocks.tokens.lowerBound

    private func make(
        _ pages: PageFile, _ origin: PeerPage.Origin
    ) throws(CacheError) -> (page: PeerPage, memory: PageFile.Memory?) {
        do {
            return try pages.make(for: origin.inode)
        } catch .noEntry where pages.place == .memory {
            throw CacheError(
                code: .unsupportedDisk,
                message: """
                    Several processes can share a cache on a disk that copies blocks on write (Btrfs, XFS, overlayfs) \
                    only where the system has shared memory, and `/dev/shm` is missing. Use ext4 or tmpfs; where one \
                    process is enough, the setting `sharing: .exclusive`.
                    """,
                path: path)
        } catch {
            let place = pages.place == .memory ? "in the shared memory of the system (`/dev/shm`)" : "of the cache"
            throw CacheError(error, doing: "make the shared page \(place)", path: path)
        }
    }

    /// Finds the page of the living, and makes sure that it is theirs.
    private func find(
        _ pages: PageFile, _ origin: PeerPage.Origin, of living: UInt64
    ) throws(CacheError) -> (page: PeerPage, memory: PageFile.Memory?) {
        let found = try translating("open the shared page", at: path) { () throws(Errno) in
            do throws(Errno) {
                return try pages.find()
            } catch {
                if error == .noEntry { return nil }
                throw error
            }
        }
        if let found, found.page.isIn(origin.inode), found.page.token == living { return found }
        let message =
            pages.place == .memory
            ? """
            Other processes have the cache open, and this one does not find their page in the shared memory of the \
            system (`/dev/shm`). It may be in another container, or the system has removed it when the user logged \
            out. Give all of them the same shared memory, or use ext4 or tmpfs; where one process is enough, the \
            setting `sharing: .exclusive`.
            """
            : "The shared page of the cache is damaged. Close the cache in all processes, and open it again."
        throw CacheError(code: .directoryInUse, message: message, path: path)
    }
}
