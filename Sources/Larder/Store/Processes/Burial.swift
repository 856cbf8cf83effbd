import LarderFiles

/// Ends what dead processes have left unfinished. The locks of their lanes are held.
struct Burial {
    let page: SharedPage
    let root: SharedDescriptor
    let fileSystem: any FileSystem

    /// Buries all lanes, if the page was last used for these journals.
    func buryAll(_ origin: SharedPage.Origin) {
        guard origin.boot != 0, page.isOf(origin) else { return }
        for lane in page.alive.bits { bury(lane) }
    }

    /// Cuts off the lines that were written but not published: their calls never returned, and others have already
    /// seen that nothing had changed. If that fails, the lane ends all the same: nobody may wait for the dead.
    func bury(_ lane: Int) {
        let count = page.journalCount(of: lane)
        if count > 0, let part = page.journal(count, of: lane), part.generation > 0 {
            try? cut(part)
        }
        page.end(lane, isDead: true)
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

    /// Ends the page of processes that are all dead, for one that has the directory alone: the lengths in it will not
    /// hold any more.
    static func retirePage(in root: SharedDescriptor, _ fileSystem: any FileSystem) {
        let name = DirectoryLayout.shared.name
        guard let (file, size) = try? fileSystem.openRegular(name, in: root.file, for: .updating),
            (try? SharedPage.isPage(file.file, in: fileSystem)) == true
        else { return }
        let pages = PageFile(fileSystem: fileSystem, shared: file, place: .memory)
        if let status = try? fileSystem.status(of: file.file) {
            let origin = SharedPage.Origin(inode: status.identity.inode, boot: fileSystem.boot)
            if let page = pages.left() { Burial(page: page, root: root, fileSystem: fileSystem).buryAll(origin) }
            if size < SharedPage.size { pages.removeMemory(of: origin.inode) }
        }
        try? fileSystem.remove(name, in: root.file, directory: false)
    }
}
