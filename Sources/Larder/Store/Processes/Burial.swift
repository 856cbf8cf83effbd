import LarderFiles

/// Ends what dead processes have left unfinished. The locks of their lanes are held.
struct Burial {
    let page: PeerPage
    let root: OwnedDescriptor
    let fileSystem: any FileSystem

    /// Cuts off the lines that were written but not published: their calls never returned, and others have already
    /// seen that nothing had changed. If that fails, the lane ends all the same: nobody may wait for the dead.
    ///
    /// Returns the journal, if it could not be cut.
    @discardableResult
    func bury(_ lane: Int) -> JournalPart? {
        var uncut: JournalPart?
        let count = page.journalCount(of: lane)
        if count > 0, let part = page.journal(count, of: lane), part.generation > 0 {
            do throws(Errno) {
                try cut(part)
            } catch {
                uncut = part
            }
        }
        page.end(lane, isDead: true)
        return uncut
    }

    private func cut(_ part: JournalPart) throws(Errno) {
        let name = DirectoryLayout.journal(part.generation).name
        guard let (file, size) = try fileSystem.openRegular(name, in: root.file, for: .updating), size > part.length
        else { return }
        // A damaged page may say anything. A record begins with its line feed.
        var byte: [UInt8] = [0]
        guard try fileSystem.read(file.file, at: part.length, into: &byte) == 1, byte[0] == UInt8(ascii: "\n") else {
            return
        }
        try fileSystem.truncate(file.file, to: part.length)
    }
}

/// The page of processes that are all dead.
struct LeftPage {
    private let pages: PageFile
    private let root: OwnedDescriptor
    private let origin: PeerPage.Origin
    /// Nil when it cannot be read.
    private let page: PeerPage?

    /// The index is complete up to this, and files that it does not mention are dead.
    struct Proof {
        /// The journals that had lines, and their published lengths.
        let announced: [UInt64: Int]
        /// Those of which the unpublished end could not be cut off.
        let uncut: [UInt64: Int]
        /// The last number that was taken: perhaps by a change without a line.
        let lastNumber: UInt64
        /// The generation of the manifest.
        let savedGeneration: UInt64
        /// Entries of the index may have no file: their removal has no line.
        let lacksRecords: Bool
    }

    init(_ pages: PageFile, _ origin: PeerPage.Origin, in root: OwnedDescriptor) {
        (self.pages, self.origin, self.root) = (pages, origin, root)
        page = pages.left()
    }

    /// The same for a process that has the directory alone, or only reads; nil: there is none.
    init?(in root: OwnedDescriptor, _ fileSystem: any FileSystem) throws(Errno) {
        do throws(Errno) {
            guard let (file, _) = try fileSystem.openRegular(DirectoryLayout.shared.name, in: root.file),
                try PeerPage.isPage(file.file, in: fileSystem)
            else { return nil }
            self.root = root
            pages = PageFile(fileSystem: fileSystem, shared: file, place: .memory)
            origin = PeerPage.Origin(
                inode: try fileSystem.status(of: file.file).identity.inode, boot: fileSystem.boot)
            page = try PeerPage.isSafe(file.file, in: fileSystem) ? pages.left() : nil
        } catch {
            // One that only reads may not be the owner of the page.
            if error == .noEntry || fileSystem.isReadOnly { return nil }
            throw error
        }
    }

    /// Buries the processes. Nil when it is not known whether lines are missing.
    func bury() -> Proof? {
        guard let page, origin.boot != 0, page.isOf(origin) else { return nil }
        let burial = Burial(page: page, root: root, fileSystem: pages.fileSystem)
        var uncut: [UInt64: Int] = [:]
        for lane in page.alive.bits {
            if let part = burial.bury(lane) { uncut[part.generation] = part.length }
        }
        if !page.isProved { return nil }
        let saved = page.savedGeneration
        // The page remembers some that a save has deleted. Of those before it, the manifest knows which it needs.
        let announced = page.announcedJournals.filter { $0.key >= saved || mayExist(.journal($0.key)) }
        return Proof(
            announced: announced, uncut: uncut, lastNumber: page.lastNumber, savedGeneration: saved,
            lacksRecords: page.unrecorded > 0)
    }

    private func mayExist(_ file: DirectoryLayout) -> Bool {
        do throws(Errno) {
            _ = try pages.fileSystem.status(of: file.name, in: root.file)
            return true
        } catch {
            return error != .noEntry
        }
    }

    /// Ends the page, before the first change of a process that has the directory alone: the lengths in it will not hold
    /// any more. Where nothing can be changed it stays.
    func retire() throws(Errno) {
        guard (try? pages.fileSystem.requireWritable(root.file)) != nil else { return }
        pages.removeMemory(of: origin.inode)
        do throws(Errno) {
            try pages.fileSystem.remove(DirectoryLayout.shared.name, in: root.file, directory: false)
        } catch {
            if error != .noEntry, error != .readOnly { throw error }
        }
    }
}
