import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

extension World {
    /// A world whose directory several processes may use.
    static func shared(_ configure: (inout DiskCache.Configuration) -> Void = { _ in }) -> World {
        World {
            $0.sharing = .processes
            configure(&$0)
        }
    }

    /// Another process on the same disk.
    func anotherProcess() -> World {
        var other = self
        other.files = files.another()
        return other
    }
}

@Suite("Several processes on one directory")
struct SharingTests {
    @Test("another process sees a value, its replacement, its removal and its renewal at once")
    func seesChanges() throws {
        let world = World.shared()
        let (one, other) = (try world.open(), try world.anotherProcess().open())
        try one.setString("a", forKey: "k")
        #expect(other.string(forKey: "k") == "a")
        try other.setString("b", forKey: "k")
        #expect(one.string(forKey: "k") == "b")
        try one.setTimeToLive(.hours(1), forKey: "k")
        #expect(other.entry(forKey: "k")?.expiresAt == one.entry(forKey: "k")?.expiresAt)
        #expect(try other.removeValue(forKey: "k"))
        #expect(one.string(forKey: "k") == nil)
        #expect(try !one.removeValue(forKey: "k"))
    }

    @Test("a process that comes later finds what the others have stored")
    func comesLater() throws {
        let world = World.shared()
        let one = try world.open()
        for number in 0..<40 { try one.setString("\(number)", forKey: "k\(number)") }
        try one.flush()
        try one.setString("new", forKey: "k0")
        try one.removeValue(forKey: "k1")
        let other = try world.anotherProcess().open()
        #expect(other.string(forKey: "k0") == "new")
        #expect(other.string(forKey: "k1") == nil)
        for number in 2..<40 { #expect(other.string(forKey: "k\(number)") == "\(number)") }
        #expect(other.count == 39)
    }

    @Test("files that another living process has yet to delete are no orphans, and those of a dead one are")
    func owedFiles() throws {
        let world = World.shared()
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        try one.setString("old", forKey: "k")
        other.files.inject { _, operation in operation == .remove ? .fail(.io) : nil }
        try two.setString("new", forKey: "k")
        two.settle()
        #expect(world.entryFiles.count == 2)
        let report = try one.verify()
        #expect(report.isClean && report.orphans == 0 && report.owed == 1 && report.checked == 1)
        #expect(report.description.hasSuffix("orphans 0, owed 1"))
        other.files.inject { _, _ in .kill }
        try? two.setString("newer", forKey: "k")
        one.store.disk.others.object.membership.buryTheDead()
        #expect(try one.verify().orphans == 1)
    }

    @Test("clears of everything, a namespace and a tag are seen at once")
    func seesClears() throws {
        let world = World.shared()
        let (one, other) = (try world.open(), try world.anotherProcess().open())
        try one.setString("a", forKey: "a")
        try one.setString("b", forKey: "b", tags: ["t"])
        try other.namespace("n").setString("c", forKey: "c")
        try other.removeAll(tagged: "t")
        #expect(one.string(forKey: "b") == nil)
        #expect(one.string(forKey: "a") == "a")
        try one.namespace("").removeAll()
        #expect(other.string(forKey: "a") == nil)
        #expect(one.namespace("n").string(forKey: "c") == "c")
        try one.removeAll()
        #expect(other.namespace("n").string(forKey: "c") == nil)
        #expect(other.count == 0)
    }

    @Test("beside another process a clear deletes the files of what it removes, and counts it")
    func clearedFiles() throws {
        let world = World.shared()
        let (one, other) = (try world.open(), try world.anotherProcess().open())
        for number in 0..<40 { try one.setString("v", forKey: "\(number)", tags: number < 10 ? ["t"] : []) }
        try other.removeAll(tagged: "t")
        other.settle()
        #expect(world.entryFiles.count == 30)
        #expect(other.statistics.removals == 10 && one.statistics.removals == 0)
        try other.removeAll()
        other.settle()
        #expect(other.statistics.removals == 40 && one.count == 0)
        try one.flush()
        try other.flush()
        #expect(world.entryFiles == [])
    }

    @Test("while a manifest that was saved is missing, no other process opens, until the next save")
    func deletedManifest() throws {
        let world = World.shared()
        let one = try world.open()
        for number in 0..<20 { try one.setString("v", forKey: "\(number)") }
        try one.flush()
        let outside = world.files.another()
        let root = try outside.openDirectory(path: "/cache", creation: .never)
        try outside.remove(.text("manifest.json"), in: root, directory: false)
        #expect(code { _ = try world.anotherProcess().open() } == .directoryInUse)
        #expect(one.string(forKey: "3") == "v")
        try one.setString("w", forKey: "3")
        try one.flush()
        let other = try world.anotherProcess().open()
        #expect(other.string(forKey: "3") == "w" && other.string(forKey: "4") == "v" && other.count == 20)
    }

    @Test("a value in memory is dropped when another process changes it")
    func memory() async throws {
        let world = World.shared()
        let one = Cache<String>(disk: try world.open(), namespace: "")
        let other = Cache<String>(disk: try world.anotherProcess().open(), namespace: "")
        try await one.setValue("a", forKey: "k")
        #expect(await other.value(forKey: "k") == "a")
        #expect(await other.value(forKey: "k") == "a")
        try await one.setValue("b", forKey: "k")
        #expect(await other.value(forKey: "k") == "b")
        #expect(try await other.setValueIfAbsent("c", forKey: "k") == "b")
        try await one.modifyValue(forKey: "k") { value in value = (value ?? "") + "!" }
        #expect(await other.value(forKey: "k") == "b!")
        try await one.removeValue(forKey: "k")
        #expect(await other.value(forKey: "k") == nil)
    }

    @Test("saves of one process serve the others, and journals do not pile up")
    func saves() throws {
        let world = World.shared()
        let (one, other) = (try world.open(), try world.anotherProcess().open())
        for round in 0..<10 {
            try one.setString("\(round)", forKey: "a\(round)")
            try other.setString("\(round)", forKey: "b\(round)")
            try (round % 2 == 0 ? one : other).flush()
        }
        let journals = world.names.filter { $0.hasPrefix("journal-") }
        #expect(journals.count <= 4, "\(journals)")
        try one.close()
        try other.close()
        let again = try World.shared { $0.sharing = .exclusive }.with(world.files.another()).open()
        for round in 0..<10 {
            #expect(again.string(forKey: "a\(round)") == "\(round)")
            #expect(again.string(forKey: "b\(round)") == "\(round)")
        }
    }

    @Test("the values that a killed process has stored stay, and its lane is used again")
    func killed() throws {
        let world = World.shared()
        let one = try world.open()
        for round in 0..<70 {
            let other = world.anotherProcess()
            let cache = try other.open()
            try cache.setString("\(round)", forKey: "k\(round)")
            other.files.kill()
            #expect(one.string(forKey: "k\(round)") == "\(round)")
        }
        #expect(one.count == 70)
    }

    @Test("nobody removes a sliding life that another process keeps alive")
    func sliding() throws {
        let world = World.shared {
            $0.slidingExpiry = true
            $0.sweepInterval = nil
        }
        let (one, other) = (try world.open(), try world.anotherProcess().open())
        try one.setString("a", forKey: "k", ttl: .seconds(100))
        for _ in 0..<5 {
            world.clock.advance(by: .seconds(60))
            #expect(other.removeExpired() == 0)
            #expect(one.string(forKey: "k") == "a")
        }
        #expect(other.hasValue(forKey: "k"))
        world.clock.advance(by: .seconds(101))
        #expect(other.removeExpired() == 1)
        #expect(one.string(forKey: "k") == nil)
    }

    @Test("on a full disk, removals have room for their records: others see them in memory and on disk")
    func fullDisk() async throws {
        let world = World.shared()
        let one = try world.open()
        let disk = try world.anotherProcess().open()
        let other = Cache<String>(disk: disk, namespace: "")
        let keys = (0..<20).map { "k\($0)" }
        for key in keys { try one.setString("a", forKey: key) }
        try one.setKept("a", forKey: "kept")
        try one.namespace("n").setString("a", forKey: "k")
        for key in keys { #expect(await other.value(forKey: key) == "a") }
        world.files.limitFreeSpace(to: 0)
        #expect(code { try one.setString("b", forKey: "new") } == .noSpace)
        for key in keys.dropLast() {
            #expect(try one.removeValue(forKey: key))
            #expect(await other.value(forKey: key) == nil)
            #expect(!disk.hasValue(forKey: key))
            world.files.limitFreeSpace(to: 0)
        }
        #expect(try one.expireValue(forKey: "kept"))
        #expect(!disk.hasValue(forKey: "kept"))
        try one.namespace("n").removeAll()
        #expect(disk.namespace("n").count == 0)
        world.files.limitFreeSpace(to: 0)
        try one.removeAll()
        #expect(await other.value(forKey: "k19") == nil)
        #expect(disk.count == 0)
        let joined = try world.anotherProcess().open()
        for cache in [one, disk, joined] { #expect(cache.keys().isEmpty && !cache.hasValue(forKey: "k0")) }
    }

    @Test("beside others, a removal that cannot be recorded fails and removes nothing")
    func unrecorded() async throws {
        let world = World.shared()
        let (one, other) = (try world.open(), try world.anotherProcess().open())
        for key in ["k", "n/k"] { try other.store(key, "a") }
        world.files.inject { _, operation in operation == .write ? .fail(.noSpace) : nil }
        #expect(code { try one.removeValue(forKey: "k") } == .noSpace)
        #expect(code { try one.removeAll() } == .noSpace)
        #expect(code { try one.expireAll() } == .noSpace)
        one.trim(toCount: 0)
        for cache in [one, other] { #expect(cache.stored("k") == "a 1 h") }
        world.files.inject { _, _ in nil }
        for cache in [one, other, try world.anotherProcess().open()] {
            for key in ["k", "n/k"] { #expect(cache.stored(key) == "a 1 h") }
        }
    }

    @Test("alone, a removal works without a record, and a process that joins knows of it")
    func unrecordedAlone() async throws {
        let world = World.shared()
        let one = try world.open()
        let keys = (0..<5).map { "k\($0)" }
        for key in keys { try one.setString("a", forKey: key) }
        world.files.inject { _, operation in operation == .write ? .fail(.noSpace) : nil }
        for key in keys { #expect(try one.removeValue(forKey: key)) }
        let other = try world.anotherProcess().open()
        #expect(!other.hasValue(forKey: "k0"))
        #expect(try !other.removeValue(forKey: "k1"))
        #expect(try !other.setTimeToLive(.hours(1), forKey: "k2"))
        #expect(try !other.expireValue(forKey: "k2"))
        world.files.inject { _, _ in nil }
        #expect(try await Cache<String>(disk: other, namespace: "").setValueIfAbsent("b", forKey: "k3") == nil)
        let seen = try await Cache<String>(disk: other, namespace: "").modifyValue(forKey: "k4") { value in
            defer { value = "c" }
            return value
        }
        #expect(seen == nil)
        for cache in [one, other] {
            #expect(keys.map { cache.string(forKey: $0) } == [nil, nil, nil, "b", "c"])
        }
    }

    @Test("a value that is removed from a segment without a record is gone for all later processes")
    func unrecordedInSegment() throws {
        let world = World.shared {
            $0.sweepInterval = nil
            $0.inlineThreshold = 1_000
        }
        let first = world.anotherProcess()
        let one = try first.open()
        let keys = (0..<400).map { "k\($0)" }
        let expected = keys.map { $0 == "k0" ? "a" : nil }
        for key in keys { try one.setString("a", forKey: key, ttl: .forever) }
        try one.flush()
        // This begins a journal, of which the first block has room for some lines.
        try one.setString("a", forKey: "k0", ttl: .forever)
        world.files.limitFreeSpace(to: 0)
        for key in keys.dropFirst() { #expect(try one.removeValue(forKey: key)) }
        let page = one.store.disk.others.object.page
        #expect(page.unrecorded > 0)
        // What this one knows does not become the index of later sessions.
        let two = try world.open()
        #expect(keys.map { two.string(forKey: $0) } == expected)
        first.files.kill()
        world.files.limitFreeSpace(to: 1 << 20)
        try two.close()
        let three = try world.open()
        #expect(keys.map { three.string(forKey: $0) } == expected)
        try three.flush()
        #expect(keys.map { three.string(forKey: $0) } == expected)
        three.checkInvariants(world, settled: true)
    }

    @Test("a change after a journal that a save has overtaken, on a full disk, is in one that others read")
    func overtakenJournal() throws {
        let world = World.shared()
        let other = try world.anotherProcess().open()
        let gate = GatedFileSystem(world.files)
        let one = try world.open(through: gate)
        try one.store("k", "old")
        try other.store("l", "0")
        try other.flush()
        // It begins another journal, and is held before its header.
        let hold = gate.hold { operation, _, _ in operation == .write }
        let isDone = DispatchSemaphore(value: 0)
        let failure = Lock<CacheError.Code?>(nil)
        DispatchQueue.global().async {
            let found = code { try one.setTimeToLive(.hours(2), forKey: "k") }
            failure.withLock { $0 = found }
            isDone.signal()
        }
        hold.reached.wait()
        try other.store("l", "1")
        try other.flush()
        world.files.inject { _, operation in operation == .create ? .fail(.noSpace) : nil }
        hold.free.signal()
        isDone.wait()
        #expect(failure.withLock { $0 } == .noSpace)
        world.files.inject(nil)
        try one.store("k", "new")
        for cache in [other, try world.anotherProcess().open()] { #expect(cache.stored("k") == "new 1 h") }
    }

    @Test(
        "journals that could not be begun, on a full disk, are no damage when all processes are dead",
        arguments: [false, true])
    func unbegunJournals(isLast: Bool) throws {
        let world = World.shared()
        let (one, other, third) = (world, world.anotherProcess(), world.anotherProcess())
        let caches = (try one.open(), try other.open(), try third.open())
        try caches.1.store("k", "old")
        try caches.0.store("l", "l")
        // A value that is complete and never published: its file is newer than the one that is removed.
        let writes = Lock(0)
        one.files.inject { _, operation in
            guard operation == .write else { return nil }
            return writes.withLock { writes -> MemoryFileSystem.Fault? in
                writes += 1
                return writes == 2 ? .kill : nil
            }
        }
        try? caches.0.store("k", "unpublished")
        #expect(try caches.1.removeStored("k"))
        third.files.inject { _, operation in operation == .write ? .fail(.noSpace) : nil }
        for _ in 0..<2 { #expect(code { try caches.2.setTimeToLive(.hours(2), forKey: "l") } == .noSpace) }
        third.files.inject(nil)
        if !isLast { try caches.2.store("m", "m") }
        for world in [other, third] { world.files.kill() }
        let last = try world.anotherProcess().open()
        for _ in 0..<2 {
            #expect(last.stored("k") == nil)
            #expect(last.stored("l") == "l 1 h")
            #expect(last.stored("m") == (isLast ? nil : "m 1 h"))
            last.settle()
        }
        #expect(last.statistics.adoptions == 0)
    }

    @Test("on a full disk, removals go on in the old journal when another process has saved", arguments: [false, true])
    func fullAfterSave(isOwnSave: Bool) throws {
        let world = World.shared()
        let (one, other) = (try world.open(), try world.anotherProcess().open())
        for number in 0..<20 { try one.store("k\(number)", "a") }
        if !isOwnSave {
            try other.store("l", "l")
            try other.flush()
        }
        world.files.limitFreeSpace(to: 0)
        if isOwnSave { #expect(code { try one.flush() } == .noSpace) }
        let journals = world.names.count
        for number in 0..<20 {
            #expect(try one.removeStored("k\(number)"))
            #expect(other.stored("k\(number)") == nil)
            world.files.limitFreeSpace(to: 0)
        }
        #expect(world.names.count <= journals + 1, "one journal that could not be begun, at most: \(world.names)")
        world.files.limitFreeSpace(to: nil)
        try one.store("m", "m")
        for world in [world, world.anotherProcess()] { #expect(try world.open().keys().contains("m")) }
        for cache in [one, other] { try cache.flush() }
        for number in 0..<20 { #expect(try world.anotherProcess().open().stored("k\(number)") == nil) }
    }

    @Test("a clear on a full disk spares the values that others have stored after it")
    func fullClear() throws {
        let world = World.shared()
        let other = try world.anotherProcess().open()
        let gate = GatedFileSystem(world.files)
        let one = try world.open(through: gate)
        try one.store("k", "old")
        try one.store("l", "old")
        // Its tombstone finds no room; its number is taken by then.
        let hold = gate.hold { operation, _, _ in operation == .create }
        let isDone = DispatchSemaphore(value: 0)
        let failures = FailureNotes()
        DispatchQueue.global().async {
            do { try one.removeAll() } catch { failures.add("\(error)") }
            isDone.signal()
        }
        hold.reached.wait()
        try other.store("k", "new")
        // It follows, and reads no file: that would wait for the clear.
        #expect(one.hasValue(forKey: "k"))
        world.files.inject { _, operation in operation == .create ? .fail(.noSpace) : nil }
        hold.free.signal()
        isDone.wait()
        world.files.inject(nil)
        #expect(failures.all == [])
        for cache in [one, other, try world.anotherProcess().open()] {
            #expect(cache.stored("k") == "new 1 h")
            #expect(cache.stored("l") == nil)
        }
    }

    @Test("alone on a full disk, an expiry of kept values that cannot be recorded changes nothing")
    func unrecordedExpiry() throws {
        let world = World.shared()
        let before = try world.open()
        try before.setKept("a", forKey: "k")
        try before.close()
        let one = try world.anotherProcess().open()
        world.files.limitFreeSpace(to: 0)
        let failure = code { try one.expireAll() }
        let other = try world.anotherProcess().open()
        let isThere = failure != nil
        #expect(failure == nil || failure == .noSpace)
        for cache in [one, other] { #expect((cache.string(forKey: "k") != nil) == isThere) }
    }

    @Test("a change that depends on the value finds its turn beside changes without a pause")
    func patience() throws {
        let world = World.shared()
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        let follower = two.store.disk.others.object
        let (page, lane) = (follower.page, follower.lane)
        let stripe = Key("k").stripe
        // Each change lasts for 50 looks at the page, as one does that waits for a slow disk: longer than the first
        // rounds. The next one begins before anybody can look.
        let (looks, most) = (50, 30)
        let counts = Lock((accesses: 0, changes: 0))
        world.files.countAccesses()
        _ = page.beginChange(stripe: stripe, slot: 0, of: lane)
        world.files.inject { _, operation in
            guard operation == .access else { return nil }
            counts.withLock { counts in
                counts.accesses += 1
                guard counts.accesses.isMultiple(of: looks), counts.changes < most else { return }
                counts.changes += 1
                page.endChange(slot: 0, of: lane)
                // Without an end of the changes, a set that never finds its turn would wait forever.
                if counts.changes < most { _ = page.beginChange(stripe: stripe, slot: 0, of: lane) }
            }
            return nil
        }
        let now = world.clock.now
        let request = SetRequest(
            key: Key("k"), life: Life(expires: now.advanced(byMilliseconds: 1_000), ttl: 1_000), attachments: nil,
            now: now, condition: .ifNotFresh)
        #expect(try Array("v".utf8).withUnsafeBytes { try one.store.set($0, request) })
        world.files.inject(nil)
        page.endChange(slot: 0, of: lane)
        #expect(counts.withLock { 0 < $0.changes && $0.changes < most })
    }

    @Test("a process that opens while another begins the cache does not take its first file for a foreign one")
    func beginning() throws {
        let world = World.shared()
        let root = try world.files.openDirectory(path: "/cache", creation: .plain)
        try world.files.makeDirectory(DirectoryLayout.entries.name, in: root)
        let other = world.anotherProcess()
        // It has found no page, and has listed the directory.
        let hold = MemoryFileSystem.Hold()
        let (hasListed, isHeld) = (Flag(), Flag())
        other.files.inject { _, operation in
            if operation == .list { hasListed.set() }
            guard hasListed.isSet, operation != .list, !isHeld.isSet else { return nil }
            isHeld.set()
            return .hold(hold)
        }
        let failures = FailureNotes()
        let opened = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            do {
                _ = try other.open()
            } catch {
                failures.add("\(error)")
            }
            opened.signal()
        }
        hold.reached.wait()
        let cache = try world.open()
        world.files.tamper { $0.add([1, 2, 3], at: "/cache/entries/0000000000000001") }
        hold.free.signal()
        opened.wait()
        #expect(failures.all == [])
        try cache.close()
    }

    @Test("the loss of the last journal is noticed while a save has left the one before it")
    func lastJournalLost() throws {
        var world = World.shared()
        let cache = try world.open()
        try cache.store("a", "one")
        world.files.inject { _, operation in operation == .rename ? .fail(.io) : nil }
        #expect(code { try cache.flush() } == .io)
        world.files.inject(nil)
        try cache.store("b", "two")
        let journals = world.names.filter { $0.hasPrefix("journal") }
        #expect(journals.count == 2)
        world.files.kill()
        world.files = world.files.restarted()
        world.remove(try #require(journals.last))
        let again = try world.open()
        #expect(again.stored("b") == "two 1 h" && again.stored("a") == "one 1 h")
        try again.flush()
        #expect(again.content == ["a": "one 1 h", "b": "two 1 h"])
    }

    @Test("a file is not obsolete any more once another process has taken back what had replaced it")
    func takenBack() throws {
        let world = World.shared()
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        try one.store("a", "old")
        #expect(two.stored("a") == "old 1 h")
        let key = Key("a")
        let old = try #require(two.store.index.entry(key))
        let pool = two.store.context.pool
        var new = old
        (new.file, new.change) = (FileID(old.file.number + 7), old.file.number + 7)
        let index = two.store.index
        _ = index.apply(.set(new), pool)
        // As an index does that was read anew in between.
        index.withShard(of: key) { $0.markObsolete(old.file, of: key) }
        _ = index.apply(.obsolete(file: new.file, of: key), pool)
        _ = index.apply(.set(old), pool)
        try two.flush()
        #expect(two.stored("a") == "old 1 h" && one.stored("a") == "old 1 h")
        #expect(world.entryFiles.count == 1)
    }

    @Test("processes whose directory was deleted meet in the new one", arguments: [1, 40])
    func deleted(entries: Int) throws {
        let world = World.shared()
        let (one, other) = (try world.open(), try world.anotherProcess().open())
        for number in (0..<entries).reversed() { try one.store("k\(number)", "old") }
        // The numbers of the new directory are lower than that of this removal.
        #expect(other.stored("k0") == "old 1 h")
        try other.removeValue(forKey: "k0")
        try world.files.deleteTree("cache")
        #expect(one.stored("k0") == nil)
        try other.store("new", "of the other")
        #expect(one.stored("new") == "of the other 1 h")
        try one.store("k0", "of one")
        #expect(other.stored("k0") == "of one 1 h")
        for cache in [one, other] { try cache.flush() }
        let joined = try world.anotherProcess().open()
        for cache in [one, other, joined] {
            #expect(Set(cache.keys()) == ["new", "k0"])
            #expect(cache.stored("k0") == "of one 1 h")
            #expect(try cache.verify().isClean)
        }
    }

    @Test("damage to a group of the manifest is repaired by a save of a process that knows its entries")
    func damagedGroup() throws {
        let world = World.shared { $0.entriesPerGroup = 3 }
        let one = try world.open()
        for number in 0..<40 { try one.store("k\(number)", "v") }
        try one.flush()
        let other = try world.anotherProcess().open()
        try world.files.overwrite("manifest.json", from: 300)
        let found = (0..<40).filter { other.stored("k\($0)") == "v 1 h" }
        #expect(found.count < 40)
        other.settle()
        // Its next call hears of it.
        #expect(one.stored("k0") == "v 1 h")
        try one.flush()
        other.store.reconciler.retry()
        other.settle()
        for number in 0..<40 { #expect(other.stored("k\(number)") == "v 1 h") }
        try one.close()
        try other.flush()
        #expect(try other.verify().isClean)
        #expect(other.count == 40)
    }

    @Test("a list of keys is whole although the index is replaced by what another process has saved")
    func keysAmidReplacement() throws {
        let world = World.shared { $0.entriesPerGroup = 3 }
        let (one, other) = (try world.open(), try world.anotherProcess().open())
        let names = (0..<200).map { "\($0)" }
        for name in names { try other.setString("v", forKey: name) }
        #expect(one.count == 200)
        let replacements = one.store.index.replacements
        var hasSaved = false
        let found = one.store.freshEntries(of: .none, at: world.clock.now) { entry in
            if !hasSaved {
                hasSaved = true
                for _ in 0..<3 {
                    for name in names { try? other.setString("w", forKey: name) }
                    try? other.flush()
                }
                _ = one.string(forKey: "0")
            }
            return entry.keyText
        }
        #expect(one.store.index.replacements != replacements, "it was replaced")
        #expect(Set(found) == Set(names))
    }

    @Test(
        "the next opening finds what others have seen of a change of many entries, killed at any write",
        arguments: [0, 1, 2])
    func killedClear(operation: Int) throws {
        var outcomes: Set<String?> = []
        for number in 1... {
            var world = World.shared { $0.sweepInterval = nil }
            let another = world.anotherProcess()
            let (one, other) = (try world.open(), try another.open())
            try one.setString("v", forKey: "k", tags: ["t"])
            #expect(other.string(forKey: "k") == "v")
            let writes = Lock(0)
            another.files.inject { _, operation in
                guard operation == .write else { return nil }
                return writes.withLock { writes in
                    writes += 1
                    return writes == number ? .kill : nil
                }
            }
            switch operation {
            case 0: try? other.removeAll()
            case 1: try? other.removeAll(tagged: "t")
            default: try? other.expireAll(tagged: "t")
            }
            let isWhole = writes.withLock { $0 } < number
            let seen = one.string(forKey: "k")
            outcomes.insert(seen)
            world.files.kill()
            world.restart()
            if isWhole { world.loseIndex() }
            let last = try world.open()
            #expect(last.string(forKey: "k") == seen, "killed at write \(number)")
            last.settle()
            #expect(last.string(forKey: "k") == seen, "killed at write \(number), reconciled")
            if isWhole { break }
        }
        #expect(outcomes == ["v", nil])
    }

    @Test("a process that is slow to create the page keeps no other out", arguments: [false, true])
    func slowCreation(beginsLater: Bool) throws {
        let world = World.shared()
        let creator = world.files.another()
        let root = OwnedDescriptor(try creator.openDirectory(path: "/cache", creation: .durable))
        #expect(try creator.lock(root.file))
        let create: @Sendable () -> Void = {
            _ = try? creator.open(DirectoryLayout.shared.name, in: root.file, for: .creating)
        }
        if !beginsLater { create() }
        // Otherwise the other process has found no page, and somebody who has the lock.
        let gate = GatedFileSystem(world.files.another())
        let attempts = Lock(0)
        _ = gate.hold { operation, name, _ in
            guard beginsLater, operation == .open, name == "." else { return false }
            let number = attempts.withLock { count in
                count += 1
                return count
            }
            if number == 2 { create() }
            return false
        }
        let failure = Lock<CacheError.Code?>(nil)
        let isDone = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            let found = code { _ = try world.open(through: gate) }
            failure.withLock { $0 = found }
            isDone.signal()
        }
        // Longer than an opening tries while a process has the directory for itself.
        let isEarly = isDone.wait(timeout: .now() + .milliseconds(beginsLater ? 2_000 : 300)) == .success
        creator.unlock(root.file)
        if !isEarly { isDone.wait() }
        #expect(failure.withLock { $0 } == nil)
    }

    @Test("a directory is shared or not, never both")
    func exclusive() throws {
        let world = World.shared()
        let alone = World.exclusive().with(world.files.another())
        var shared: DiskCache? = try world.open()
        #expect(code { _ = try alone.open() } == .directoryInUse)
        try shared?.close()
        shared = nil
        let own = try alone.open()
        #expect(code { _ = try world.anotherProcess().open() } == .directoryInUse)
        try own.close()
        _ = try world.anotherProcess().open()
    }
}

extension World {
    func with(_ files: MemoryFileSystem) -> World {
        var world = self
        world.files = files
        return world
    }
}
