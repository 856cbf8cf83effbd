import Foundation
import LarderFiles
import LarderTestSupport
import Testing

@testable import Larder
@testable import LarderTesting

/// The page is only a hint: whatever it has, nothing is lost.
@Suite("A page that is torn, stale, foreign or lost")
struct PageTests {
    private static let page = "/cache/" + DirectoryLayout.shared.name.description

    /// The event that befell the page while nobody had the directory open.
    enum Damage: CaseIterable {
        case none, empty, short, long, random, format, inode, boot, lost

        func apply(to image: inout MemoryImage) {
            guard var content = image.content(at: page) else { return }
            switch self {
            case .none: break
            case .empty: content = []
            case .short: content = Array(content.prefix(1000))
            case .long: content += [UInt8](repeating: 7, count: 5000)
            case .random:
                var generator = SeededGenerator(seed: 1)
                for position in content.indices { content[position] = .random(in: 0...255, using: &generator) }
            case .format: content[0] ^= 1
            case .inode: content[8] ^= 1
            case .boot: image.boot += 1
            case .lost: image.remove(at: page)
            }
            if self != .lost { image.setContent(content, at: page) }
        }
    }

    /// Two processes store some values, and die or end.
    private func world(isKilled: Bool) throws -> World {
        let world = World.shared()
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        try one.store("a", "one")
        try two.store("b", "two")
        try one.flush()
        try two.store("c", "two")
        try one.store("a", "again")
        try two.removeStored("b").check(true)
        if isKilled {
            world.files.kill()
            other.files.kill()
        } else {
            try one.close()
            try two.close()
        }
        return world
    }

    private static let expected = ["a": "again 1 h", "c": "two 1 h"]

    @Test("is begun anew by the first process", arguments: Damage.allCases, [true, false])
    func first(damage: Damage, isKilled: Bool) throws {
        var world = try world(isKilled: isKilled)
        var image = world.files.restarted().image
        damage.apply(to: &image)
        world.restart(with: image)
        let cache = try world.open()
        #expect(cache.content == Self.expected)
        let joined = try world.anotherProcess().open()
        #expect(joined.content == Self.expected)
        try joined.store("d", "new")
        #expect(cache.stored("d") == "new 1 h")
        try cache.removeStored("d").check(true)
        #expect(joined.content == Self.expected)
        try joined.close()
        try cache.flush()
        try cache.close()
        var alone = world.with(world.files.another())
        alone.configuration.sharing = .exclusive
        let again = try alone.open()
        #expect(again.content == Self.expected)
        try again.flush()
        #expect(try again.verify().isClean)
        again.checkInvariants(alone, settled: true)
    }

    @Test(
        "with the right origin and nonsense in its lanes loses nothing")
    func nonsense() throws {
        for seed in Sample.few(8, of: 1...20 as ClosedRange<UInt64>) {
            var world = try world(isKilled: true)
            var image = world.files.restarted().image
            var content = try #require(image.content(at: Self.page))
            var generator = SeededGenerator(seed: seed)
            for position in 64..<content.count { content[position] = .random(in: 0...255, using: &generator) }
            image.setContent(content, at: Self.page)
            world.restart(with: image)
            #expect(try world.open().content == Self.expected, "seed \(seed)")
        }
    }

    @Test("of an earlier session takes nothing from one that did not share", arguments: [true, false])
    func stale(isKilledAlone: Bool) throws {
        try checkStale(isKilled: false, isKilledAlone: isKilledAlone)
        try checkStale(isKilled: true, isKilledAlone: false)
    }

    @Test(
        "of killed processes takes nothing from one that did not share and was killed, too")
    func staleAfterKills() throws {
        try checkStale(isKilled: true, isKilledAlone: true)
    }

    private func checkStale(isKilled: Bool, isKilledAlone: Bool) throws {
        let world = try world(isKilled: isKilled)
        var alone = world.with(world.files.another())
        alone.configuration.sharing = .exclusive
        let cache = try alone.open()
        try cache.store("d", "alone")
        if isKilledAlone { alone.files.kill() } else { try cache.close() }
        let again = world.with(world.files.another())
        let content = try again.open().content
        #expect(content == Self.expected.merging(["d": "alone 1 h"]) { $1 })
    }

    /// The event that befell the page while others had the directory open.
    enum Loss: CaseIterable {
        case deleted, emptied, cut, format, inode
        /// Another file has its name.
        case replaced, replacedByCopy
        case replacedByDirectory

        func apply(to files: MemoryFileSystem) throws {
            let content = try #require(files.image.content(at: page))
            switch self {
            case .deleted: files.tamper { $0.remove(at: page) }
            case .emptied: files.tamper { $0.setContent([], at: page) }
            case .cut: files.tamper { $0.setContent(Array(content.prefix(1000)), at: page) }
            case .format: change(0, files)
            case .inode: change(1, files)
            case .replaced, .replacedByCopy:
                try replace(files) { files, directory throws(Errno) in
                    let file = try files.open(DirectoryLayout.shared.name, in: directory, for: .creating)
                    let bytes = self == .replaced ? [UInt8](repeating: 0, count: PeerPage.size) : content
                    try files.write(bytes, to: file, at: 0)
                }
            case .replacedByDirectory:
                try replace(files) { files, directory throws(Errno) in
                    try files.makeDirectory(DirectoryLayout.shared.name, in: directory)
                }
            }
        }

        private func change(_ word: Int, _ files: MemoryFileSystem) {
            let mapped = files.state.withLock { $0.mapped.values.first }
            mapped?.start[word] ^= 1
        }

        private func replace(
            _ files: MemoryFileSystem, _ make: (MemoryFileSystem, borrowing FileDescriptor) throws(Errno) -> Void
        ) throws {
            let foreign = files.another()
            let directory = try foreign.openDirectory(path: "/cache", creation: .never)
            try foreign.remove(DirectoryLayout.shared.name, in: directory, directory: false)
            try make(foreign, directory)
        }
    }

    @Test(
        "that is lost or damaged keeps newcomers out; the others go on",
        arguments: Loss.allCases.filter { ![.replaced, .replacedByCopy].contains($0) })
    func lost(loss: Loss) throws {
        try lose(loss)
    }

    @Test(
        "that another file has replaced keeps newcomers out",
        arguments: [Loss.replaced, .replacedByCopy])
    func replaced(loss: Loss) throws {
        try lose(loss)
    }

    @Test(
        "that claims wrong journals ends no process, and is right again after the next change",
        arguments: [true, false])
    func wrongJournals(isLonger: Bool) throws {
        let world = World.shared()
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        let (page, lane, part) = try lastJournal(of: one, seenBy: two)
        let count = page.journalCount(of: lane)
        let words = 128 + 144 * lane..<128 + 144 * (lane + 1)
        if isLonger {
            let place = words.dropLast().first { place in
                page.words.load(place) == part.generation && page.words.load(place + 1) == UInt64(part.length)
            }
            page.words.store(1 << 47, at: try #require(place) + 1)
        } else {
            // The count of journals, in the lane.
            page.words.store(count - 1, at: words.lowerBound + 1)
        }
        page.nextEpoch()
        #expect(two.content["a"] == "one 1 h" || two.content["a"] == nil)
        if !isLonger { page.words.store(count, at: words.lowerBound + 1) }
        try one.store("b", "two")
        #expect(two.content == ["a": "one 1 h", "b": "two 1 h"])
    }

    @Test("with a journal that cannot be one keeps nobody waiting, and is right again after the next")
    func impossibleJournal() throws {
        let world = World.shared()
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        let (page, lane, part) = try lastJournal(of: one, seenBy: two)
        page.announce(JournalPart(generation: .max, length: 0), of: lane)
        page.nextEpoch()
        // The value may have been replaced meanwhile. No save may take the journal for covered.
        #expect(two.stored("a") == nil)
        #expect(code { try two.removeStored("a").check(true) } != nil)
        try? two.flush()
        page.announce(part, of: lane)
        page.nextEpoch()
        #expect(two.content == ["a": "one 1 h"])
        try two.store("b", "two")
        #expect(one.content == ["a": "one 1 h", "b": "two 1 h"])
    }

    /// Stores a value that the other process sees, and returns the announced part of the journal that has it.
    private func lastJournal(
        of cache: DiskCache, seenBy other: DiskCache
    ) throws -> (page: PeerPage, lane: Int, part: JournalPart) {
        try cache.store("a", "one")
        #expect(other.content == ["a": "one 1 h"])
        let follower = cache.store.disk.others.object
        let (page, lane) = (follower.page, follower.lane)
        return (page, lane, try #require(page.journal(page.journalCount(of: lane), of: lane)))
    }

    private func lose(_ loss: Loss) throws {
        let world = World.shared()
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        try one.store("a", "one")
        try loss.apply(to: world.files)
        try two.store("b", "two")
        #expect(code { _ = try world.anotherProcess().open() } == .directoryInUse)
        #expect(one.content == ["a": "one 1 h", "b": "two 1 h"])
        try one.store("a", "again")
        try two.flush()
        #expect(two.content == ["a": "again 1 h", "b": "two 1 h"])
        try one.close()
        try two.close()
        if loss == .replacedByDirectory {
            #expect(code { _ = try world.anotherProcess().open() } != nil)
        } else {
            let again = try world.anotherProcess().open()
            #expect(again.content == ["a": "again 1 h", "b": "two 1 h"])
            try again.close()
        }
        var alone = world.with(world.files.another())
        alone.configuration.sharing = .exclusive
        #expect(try alone.open().content == ["a": "again 1 h", "b": "two 1 h"])
    }

    /// A process that does not know the boot of its system.
    private struct Bootless: ForwardingFileSystem {
        let base: MemoryFileSystem
        var boot: UInt64 { 0 }
    }

    @Test("is shared by processes of which some do not know the boot", arguments: [true, false])
    func bootless(isFirst: Bool) throws {
        let world = World.shared()
        func open(isBootless: Bool) throws -> DiskCache {
            let files = world.files.another()
            return isBootless ? try world.open(through: Bootless(base: files)) : try world.open(through: files)
        }
        let (one, two) = (try open(isBootless: isFirst), try open(isBootless: !isFirst))
        try one.store("a", "one")
        try two.store("b", "two")
        try one.removeStored("a").check(true)
        for cache in [one, two] { #expect(cache.content == ["b": "two 1 h"]) }
        try one.close()
        try two.store("c", "two")
        try two.close()
        #expect(try open(isBootless: isFirst).content == ["b": "two 1 h", "c": "two 1 h"])
    }

    /// A process that finds that others may write in a file.
    private struct Exposed: ForwardingFileSystem {
        let base: MemoryFileSystem
        let inode: UInt64?

        func status(of file: borrowing FileDescriptor) throws(Errno) -> FileStatus {
            let found = try base.status(of: file)
            guard found.identity.inode == inode else { return found }
            return FileStatus(
                kind: found.kind, size: found.size, identity: found.identity, links: found.links, owner: found.owner,
                isWritableByOthers: true)
        }
    }

    /// A process that may not read a file.
    private struct Locked: ForwardingFileSystem {
        let base: MemoryFileSystem
        let inode: UInt64?

        func open(
            _ name: FileName, in directory: borrowing FileDescriptor, for use: OpenUse
        ) throws(Errno) -> FileDescriptor {
            if (try? base.status(of: name, in: directory))?.identity.inode == inode { throw .accessDenied }
            return try base.open(name, in: directory, for: use)
        }
    }

    @Test("tells that a journal is whole when its lane has begun the next")
    func past() throws {
        let world = World.shared()
        let (cache, another) = (try world.open(), try world.anotherProcess().open())
        let (page, lane, part) = try lastJournal(of: cache, seenBy: another)
        let next = page.lastGeneration + 1
        page.raiseGenerations(to: next + 1)
        // As seen by a process that was stopped after it had read what the lane is creating.
        page.note(.created(next), of: lane)
        let created = JournalPositions.forReading(page)
        #expect(created.length(of: next) == 0)
        page.announce(JournalPart(generation: next, length: 100), of: lane)
        #expect(JournalPositions.forReading(page).length(of: next) == 100)
        page.announce(JournalPart(generation: next + 1, length: 50), of: lane)
        let positions = JournalPositions.forReading(page)
        #expect(positions.length(of: next) == .max && positions.leastLength(of: next) == 100)
        #expect(positions.length(of: next + 1) == 50)
        page.note(nil, of: lane)
        page.announce(part, of: lane)
    }

    @Test("expects no clean-shutdown marker that another process has cut off")
    func shortened() throws {
        let world = World.shared()
        let (cache, another) = (try world.open(), try world.anotherProcess().open())
        let (page, lane, part) = try lastJournal(of: cache, seenBy: another)
        let marked = JournalPart(generation: part.generation, length: part.length + 65)
        page.announce(marked, of: lane)
        #expect(page.announcedJournals[part.generation] == marked.length)
        page.shorten(part, from: marked.length)
        #expect(page.journal(page.journalCount(of: lane), of: lane) == part)
        page.shorten(JournalPart(generation: part.generation, length: 1), from: part.length + 1)
        #expect(page.announcedJournals[part.generation] == part.length)
    }

    @Test("that the owner of the cache may not read is replaced")
    func foreign() throws {
        let world = World.shared()
        let one = try world.open()
        try one.store("a", "one")
        try one.close()
        let inode = world.files.image.node(at: Self.page)
        let closed = Locked(base: world.files.another(), inode: inode)
        #expect(try world.open(through: closed).content == ["a": "one 1 h"])
        #expect(world.files.image.node(at: Self.page) != inode)
    }

    @Test("that others may write in is not mapped, and is replaced once nobody has the directory open")
    func exposed() throws {
        let world = World.shared()
        let one = try world.open()
        try one.store("a", "one")
        let inode = world.files.image.node(at: Self.page)
        let two = Exposed(base: world.files.another(), inode: inode)
        let refusal = try #require(throws: CacheError.self) { _ = try world.open(through: two) }
        #expect(refusal.code == .directoryInUse)
        #expect(refusal.message.contains("may change its file `shared`"))
        try one.store("b", "two")
        try one.close()
        #expect(try world.open(through: two).content == ["a": "one 1 h", "b": "two 1 h"])
        #expect(world.files.image.node(at: Self.page) != inode)
    }

    /// A change to the real file of a page.
    enum Exposure: CaseIterable {
        case group, everybody, link
    }

    @Test(
        "with another name, or a mode that lets others write, is replaced by a new file",
        arguments: Exposure.allCases, [DiskCache.Sharing.processes, .exclusive])
    func replacedFile(exposure: Exposure, sharing: DiskCache.Sharing) throws {
        let home = try TemporaryDirectory()
        let directory = home.appending("cache")
        let cache = try DiskCache(directory: directory, configuration: .init(sharing: .processes))
        try cache.setString("v", forKey: "k")
        try cache.close()
        let path = directory.appendingPathComponent(DirectoryLayout.shared.name.description).path
        let elsewhere = home.appending("elsewhere").path
        switch exposure {
        case .group: #expect(chmod(path, 0o620) == 0)
        case .everybody: #expect(chmod(path, 0o602) == 0)
        case .link: #expect(link(path, elsewhere) == 0)
        }
        let kept = exposure == .link ? try Data(contentsOf: URL(fileURLWithPath: elsewhere)) : nil
        let again = try DiskCache(directory: directory, configuration: .init(sharing: sharing))
        #expect(again.string(forKey: "k") == "v")
        try again.setString("w", forKey: "k")
        if sharing == .processes {
            var status = stat()
            #expect(stat(path, &status) == 0)
            #expect(status.st_mode & 0o777 == 0o600)
            #expect(status.st_nlink == 1)
        }
        if let kept { #expect(try Data(contentsOf: URL(fileURLWithPath: elsewhere)) == kept) }
        try again.close()
    }

    @Test("copied with its directory belongs to the original", arguments: [true, false])
    func copied(isKilled: Bool) throws {
        let world = World.shared()
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        try one.store("a", "one")
        try two.store("b", "two")
        try one.flush()
        try two.store("a", "two")
        var image = world.files.restarted().image
        image.addDirectory(at: "/copy")
        image.addDirectory(at: "/copy/entries")
        for folder in ["", "entries/"] {
            for name in image.names(at: "/cache/" + folder) where name != "entries" {
                image.copy("/cache/\(folder)\(name)", to: "/copy/\(folder)\(name)")
            }
        }
        let files = MemoryFileSystem(image)
        let original = world.with(files)
        let cache = try original.open()
        func openCopy() throws -> DiskCache {
            try DiskCache(
                directory: URL(fileURLWithPath: "/copy", isDirectory: true), configuration: world.configuration,
                fileSystem: files.another(), clock: world.clock)
        }
        let (copy, again) = (try openCopy(), try openCopy())
        let expected = ["a": "two 1 h", "b": "two 1 h"]
        for cache in [cache, copy, again] { #expect(cache.content == expected) }
        try copy.store("a", "copy")
        try cache.removeStored("b").check(true)
        #expect(again.content == ["a": "copy 1 h", "b": "two 1 h"])
        #expect(cache.content == ["a": "two 1 h"])
    }
}

extension Bool {
    fileprivate func check(_ expected: Bool) {
        #expect(self == expected)
    }
}
