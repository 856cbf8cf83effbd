import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import Testing

@testable import Larder
@testable import LarderTesting

@Suite("Files that are set aside, and damage")
struct LastFileDamageTests {
    private static let value = "v"

    /// Two has replaced a value of one, and owes the old file; one has removed the key: its last file is set aside.
    private func aside(
        _ configure: (inout DiskCache.Configuration) -> Void = { _ in }
    ) throws -> (world: World, other: World, one: DiskCache, two: DiskCache, old: String) {
        let world = World.shared {
            $0.sweepInterval = nil
            configure(&$0)
        }
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        try one.setString("old", forKey: "k", ttl: .forever)
        let old = world.entryFiles.last ?? ""
        try two.setString("new", forKey: "k", ttl: .forever)
        check(try one.removeValue(forKey: "k"), true)
        return (world, other, one, two, old)
    }

    private func check(_ value: Bool, _ expected: Bool) { #expect(value == expected) }

    @Test("an older file that cannot be read while the index is rebuilt stays dead when it is lost again")
    func unreadableOlder() throws {
        var (world, other, _, _, old) = try aside()
        #expect(world.entryFiles.contains { $0.hasPrefix("10") }, "\(world.entryFiles)")
        other.files.kill()
        world.killAndLoseIndex()
        world.files.setUnreadable(true, at: "/cache/entries/" + old)
        var cache = try world.open()
        #expect(cache.string(forKey: "k") == nil)
        try cache.flush()
        #expect(cache.string(forKey: "k") == nil)
        let names = world.entryFiles
        world.killAndLoseIndex()
        cache = try world.open()
        try cache.flush()
        #expect(cache.string(forKey: "k") == nil, "\(names)")
    }

    @Test(
        "a removed value stays away if a call fails while the index is rebuilt, and that is lost again",
        arguments: [0, 1000])
    func failingCall(inlineThreshold: Int) throws {
        var failures: [String] = []
        for call in 1..<400 {
            var (world, other, _, _, _) = try aside { $0.inlineThreshold = inlineThreshold }
            other.files.kill()
            world.killAndLoseIndex()
            let what = Lock("")
            let isReached = Lock(false)
            world.files.inject { number, operation in
                guard number == call else { return nil }
                isReached.withLock { $0 = true }
                what.withLock { $0 = "\(operation)" }
                return .fail(.io)
            }
            if let cache = try? world.open() {
                if cache.string(forKey: "k") != nil { failures.append("first \(call) \(what.withLock { $0 })") }
                cache.settle()
            }
            if !isReached.withLock({ $0 }) { break }
            let names = world.entryFiles
            world.killAndLoseIndex()
            let cache = try world.open()
            try cache.flush()
            if let found = cache.string(forKey: "k") {
                failures.append("\(call) \(what.withLock { $0 }): \(found) \(names)")
            }
        }
        #expect(failures == [])
    }

    @Test(
        "a replaced value that cannot be read stays away when the newer one expires or is evicted",
        arguments: [0, 1, 2])
    func expired(kind: Int) throws {
        var world = World.exclusive { $0.sweepInterval = nil }
        var cache = try world.open()
        try cache.setString("old", forKey: "k", ttl: .forever)
        let old = try #require(world.entryFiles.last)
        try cache.setString("new", forKey: "k", ttl: .seconds(60))
        world.killAndLoseIndex()
        world.files.setUnreadable(true, at: "/cache/entries/" + old)
        cache = try world.open()
        try cache.flush()
        #expect(cache.string(forKey: "k") == "new")
        switch kind {
        case 0:
            world.clock.advance(by: .seconds(100))
            #expect(cache.removeExpired() == 1)
        case 1: try cache.removeValue(forKey: "k")
        default: cache.trim(toCount: 0)
        }
        try cache.flush()
        #expect(cache.string(forKey: "k") == nil)
        let names = world.entryFiles
        world.killAndLoseIndex()
        cache = try world.open()
        try cache.flush()
        #expect(cache.string(forKey: "k") == nil, "\(names)")
    }

    @Test(
        "a power cut after all debts are paid, and the index lost, bring nothing back to a power-safe cache",
        arguments: [0, 1000], [0, 1])
    func powerCut(inlineThreshold: Int, kind: Int) throws {
        let world = World.shared {
            $0.sweepInterval = nil
            $0.durability = .powerSafe
            $0.inlineThreshold = inlineThreshold
        }
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        try one.setString("old", forKey: "k", ttl: .forever)
        try two.setString("new", forKey: "k", ttl: .forever)
        if kind == 0 { try one.removeValue(forKey: "k") }
        two.store.reaper.deleteAllObsolete()
        if kind == 1 { try one.removeValue(forKey: "k") }
        one.store.reaper.deleteAllObsolete()
        let names = world.entryFiles
        let found = try world.valuesAfterPowerCuts(0..<60)
        #expect(found.isEmpty, "\(found), \(names)")
    }

    @Test("making room does not delete what a change that fails restores")
    func takeBack() throws {
        let world = World.shared {
            $0.sweepInterval = nil
            $0.durability = .powerSafe
        }
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        try one.setString("old", forKey: "z", ttl: .forever)
        try one.setString("new", forKey: "z", ttl: .forever)
        try two.removeValue(forKey: "z")
        #expect(two.store.index.hasFilesAside, "\(world.entryFiles)")
        try one.setString("kept", forKey: "k", ttl: .forever)
        #expect(two.string(forKey: "k") == "kept")
        // The last sync of a set is that of the journal.
        world.files.inject(nil)
        let syncs = world.files.counts[.sync, default: 0]
        try one.setString("kept", forKey: "l", ttl: .forever)
        let each = world.files.counts[.sync, default: 0] - syncs
        let hold = MemoryFileSystem.Hold()
        let seen = Lock(0)
        let isFailing = Lock(false)
        world.files.inject { _, operation in
            guard operation == .sync else { return nil }
            let number = seen.withLock { seen in
                seen += 1
                return seen
            }
            if number == each { return .hold(hold) }
            return nil
        }
        _ = isFailing
        let isDone = DispatchSemaphore(value: 0)
        let failure = Lock("")
        DispatchQueue.global().async {
            do { try one.setString("failed", forKey: "k", ttl: .forever) } catch {
                failure.withLock { $0 = "\(error)" }
            }
            isDone.signal()
        }
        hold.reached.wait()
        LeftFiles(two.store.context).deleteForRoom()
        // The content of the values is not synced, and what follows fails.
        world.files.inject { _, operation in operation == .sync ? .fail(.io) : nil }
        hold.free.signal()
        isDone.wait()
        world.files.inject(nil)
        if failure.withLock({ $0 }) != "" {
            #expect(one.string(forKey: "k") == "kept")
            #expect(two.string(forKey: "k") == "kept")
        } else {
            #expect(one.string(forKey: "k") == "failed")
        }
    }

    // F2: with an image instead of a hold: what is on disk while the change is under way.
    @Test("making room spares what a change under way has replaced")
    func takeBackFiles() throws {
        let world = World.shared {
            $0.sweepInterval = nil
            $0.durability = .powerSafe
        }
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        try one.setString("old", forKey: "z", ttl: .forever)
        try one.setString("new", forKey: "z", ttl: .forever)
        try two.removeValue(forKey: "z")
        try one.setString("kept", forKey: "k", ttl: .forever)
        let kept = try #require(world.entryFiles.filter { !$0.hasPrefix("10") }.last)
        #expect(two.string(forKey: "k") == "kept")
        var stages: [String] = []
        let hadLost = Lock(false)
        for number in 1..<6 {
            let hold = MemoryFileSystem.Hold()
            let seen = Lock(0)
            world.files.inject { _, operation in
                guard operation == .sync else { return nil }
                let found = seen.withLock { seen in
                    seen += 1
                    return seen
                }
                return found == number ? .hold(hold) : found > number ? .fail(.io) : nil
            }
            let isDone = DispatchSemaphore(value: 0)
            let result = Lock("")
            DispatchQueue.global().async {
                do {
                    try one.setString("failed", forKey: "k", ttl: .forever)
                    result.withLock { $0 = "done" }
                } catch {
                    result.withLock { $0 = "\(error)" }
                }
                isDone.signal()
                hold.reached.signal()
            }
            hold.reached.wait()
            let seenByTwo = two.string(forKey: "k") ?? "nil"
            LeftFiles(two.store.context).deleteForRoom()
            let isThere = world.entryFiles.contains(kept)
            hold.free.signal()
            isDone.wait()
            world.files.inject(nil)
            let now = one.string(forKey: "k") ?? "nil"
            stages.append(
                "sync \(number): two sees \(seenByTwo), kept file there: \(isThere), \(result.withLock { $0 }), one sees \(now)"
            )
            if now != "kept" && now != "failed" { hadLost.withLock { $0 = true } }
            if now != "kept" { break }
        }
        #expect(!hadLost.withLock { $0 }, "\(stages)")
    }

    @Test("removing frees room on a full disk beside an idle process that owes a file", arguments: [0, 1, 2, 3])
    func removingFrees(kind: Int) throws {
        let world = World.shared { $0.sweepInterval = nil }
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        if kind > 0 {
            try one.setString("old", forKey: "z", ttl: .forever)
            try one.setString("new", forKey: "z", ttl: .forever)
        }
        _ = one
        let big = String(repeating: "x", count: 100_000)
        let space = kind == 3 ? two.namespace("n") : two
        for number in 0..<5 { try space.setString(big, forKey: "\(number)", ttl: .forever) }
        try two.flush()
        world.files.limitFreeSpace(to: 8192)
        let free = world.files.freeSpace
        if kind == 3 {
            try space.removeAll()
        } else if kind < 2 {
            for number in 0..<4 { try two.removeValue(forKey: "\(number)") }
        } else {
            for number in 0..<4 { try two.removeValue(forKey: "\(number)") }
            try? two.flush()
        }
        two.settle()
        #expect(world.files.freeSpace >= free + 380_000, "\(world.entryFiles)")
        #expect(code { try two.setString(big, forKey: "next", ttl: .forever) } == nil)
    }

    @Test("evicting makes room on a full disk beside a process that is stopped in a change", arguments: [false, true])
    func stoppedPeer(hasLimit: Bool) throws {
        let world = World.shared {
            $0.sweepInterval = nil
            if hasLimit { $0.countLimit = 1000 }
        }
        let other = world.anotherProcess()
        let gate = GatedFileSystem(world.files)
        let (one, two) = (try world.open(through: gate), try other.open())
        try one.setString("m", forKey: "m", ttl: .forever)
        let hold = gate.hold { operation, _, _ in operation == .create }
        let isDone = DispatchSemaphore(value: 0)
        DispatchQueue.global().async {
            try? one.setString("held", forKey: "held", ttl: .forever)
            isDone.signal()
        }
        hold.reached.wait()
        defer {
            hold.free.signal()
            isDone.wait()
        }
        let big = String(repeating: "x", count: 100_000)
        let keys = (0..<100).map { "key \($0)" }.filter { Key($0).shard != Key("held").shard }.prefix(6)
        for key in keys.dropLast() { try two.setString(big, forKey: key, ttl: .forever) }
        world.files.limitFreeSpace(to: 40_000)
        if !hasLimit { for key in keys.dropLast(2) { try two.removeValue(forKey: key) } }
        let failure = code { try two.setString(big, forKey: keys.last!, ttl: .forever) }
        #expect(failure == nil, "\(world.entryFiles), free: \(world.files.freeSpace)")
    }

    @Test("trimming to some free space frees it beside an idle process that owes a file")
    func trim() throws {
        let world = World.shared { $0.sweepInterval = nil }
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        try one.setString("old", forKey: "z", ttl: .forever)
        try one.setString("new", forKey: "z", ttl: .forever)
        let big = String(repeating: "x", count: 100_000)
        for number in 0..<5 { try two.setString(big, forKey: "\(number)", ttl: .forever) }
        try two.flush()
        world.files.setCapacity(world.files.image.usedSpace + 10_000)
        two.trim(toFreeSpace: 150_000)
        #expect(world.files.freeSpace >= 150_000, "\(world.entryFiles)")
    }

    @Test("a damaged last file hides the older one that another process owes", arguments: [0, 1000], [0, 1, 2])
    func damagedLast(inlineThreshold: Int, kind: Int) throws {
        let world = World.shared {
            $0.sweepInterval = nil
            $0.inlineThreshold = inlineThreshold
        }
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        try one.setString("old value", forKey: "k", ttl: .forever)
        try two.setString("new value", forKey: "k", ttl: .forever)
        world.files.tamper { image in
            var paths = image.names(at: "/cache/entries").filter { $0 != "segments" }.map { "/cache/entries/" + $0 }
            paths += image.names(at: "/cache/entries/segments").map { "/cache/entries/segments/" + $0 }
            for path in paths {
                guard var content = image.content(at: path),
                    let found = Data(content).range(of: Data("new value".utf8))
                else { continue }
                switch kind {
                case 0: content[found.lowerBound] ^= 1
                case 1:
                    for position in found.lowerBound..<min(content.count, found.lowerBound + 200) {
                        content[position] = 0
                    }
                default: content = Array(content[..<found.lowerBound])
                }
                image.setContent(content, at: path)
            }
        }
        #expect(one.string(forKey: "k") == nil)
        one.settle()
        #expect(one.string(forKey: "k") == nil && two.string(forKey: "k") == nil)
        let names = world.entryFiles
        world.files.kill()
        other.files.kill()
        var next = world
        next.restart(with: World.withoutIndex(world.files.restarted().image))
        let cache = try next.open()
        try cache.flush()
        #expect(cache.string(forKey: "k") == nil, "\(names)")
    }

    @Test("closing ends clean, whoever closes first", arguments: [0, 1000], [0, 1, 2, 3])
    func closing(inlineThreshold: Int, order: Int) throws {
        let (world, other, one, two, _) = try aside { $0.inlineThreshold = inlineThreshold }
        switch order {
        case 0: try one.close(); try two.close()
        case 1: try two.close(); try one.close()
        case 2: other.files.kill(); try one.close()
        default: world.files.kill(); try two.close()
        }
        var alone = world.with(world.files.another())
        alone.configuration.sharing = .exclusive
        var cache = try alone.open()
        #expect(cache.string(forKey: "k") == nil)
        try cache.flush()
        cache.settle()
        #expect(world.entryFiles == [] && world.fileCount == 0, "\(world.entryFiles) \(world.fileCount)")
        #expect(try cache.verify().isClean)
        cache.checkInvariants(alone, settled: true)
        try cache.close()
        cache = try alone.with(alone.files.another()).open()
        #expect(cache.store.provisional.isSettled)
    }

    @Test("nothing set aside stays while the processes live on", arguments: [0, 1000])
    func staying(inlineThreshold: Int) throws {
        let (world, _, one, two, _) = try aside { $0.inlineThreshold = inlineThreshold }
        try two.flush()
        two.settle()
        try one.flush()
        one.settle()
        #expect(world.entryFiles == [] && world.fileCount == 0, "\(world.entryFiles) \(world.fileCount)")
        #expect(!one.store.index.hasDebts && !two.store.index.hasDebts)
    }

    @Test("is understood by those that only read, whatever part of the index is lost", arguments: [0, 1000], 0..<8)
    func readOnly(inlineThreshold: Int, parts: Int) throws {
        var (world, other, one, two, _) = try aside { $0.inlineThreshold = inlineThreshold }
        try one.setString("later", forKey: "later", ttl: .forever)
        if parts & 1 == 0 { try one.flush() }
        world.files.kill()
        other.files.kill()
        var image = world.files.restarted().image
        for name in image.names(at: "/cache") {
            let isLost =
                parts & 1 != 0 && name.hasPrefix("manifest") || parts & 2 != 0 && name.hasPrefix("journal")
                || parts & 4 != 0 && name == "shared"
            if isLost { image.remove(at: "/cache/" + name) }
        }
        _ = (one, two)
        world.restart(with: image)
        let reader = try world.open(through: world.files.another().refusingChanges(with: .readOnly))
        #expect(reader.string(forKey: "k") == nil)
        reader.settle()
        #expect(reader.string(forKey: "k") == nil)
        #expect(reader.string(forKey: "later") == "later")
        try reader.close()
        world.configuration.sharing = .exclusive
        let cache = try world.with(world.files.another()).open()
        #expect(cache.string(forKey: "k") == nil)
        try cache.setString("again", forKey: "k", ttl: .forever)
        try cache.flush()
        #expect(cache.string(forKey: "k") == "again" && cache.string(forKey: "later") == "later")
        #expect(try cache.verify().isClean)
        var again = world
        again.restart(with: World.withoutIndex(world.files.image))
        let last = try again.open()
        try last.flush()
        #expect(last.string(forKey: "k") == "again" && last.string(forKey: "later") == "later")
    }

    @Test("a removal that is killed in any call brings no older value back", arguments: [0, 1000])
    func killedRemoval(inlineThreshold: Int) throws {
        for call in 1..<200 {
            let world = World.shared {
                $0.sweepInterval = nil
                $0.inlineThreshold = inlineThreshold
            }
            let other = world.anotherProcess()
            let (one, two) = (try world.open(), try other.open())
            try one.setString("old", forKey: "k", ttl: .forever)
            try two.setString("new", forKey: "k", ttl: .forever)
            #expect(one.string(forKey: "k") == "new")
            let isReached = world.killing(in: call)
            _ = try? one.removeValue(forKey: "k")
            if !isReached.withLock({ $0 }) { break }
            // The survivor acts first.
            _ = two.string(forKey: "k")
            if call % 2 == 0 { try two.flush() }
            other.files.kill()
            var next = world
            next.restart(with: World.withoutIndex(world.files.restarted().image))
            let cache = try next.open()
            let first = cache.string(forKey: "k")
            try cache.flush()
            let found = cache.string(forKey: "k")
            #expect(first != "old" && found != "old", "\(call)")
        }
    }

    // U: set again after being set aside, then lost.
    @Test("a key may be set again", arguments: [0, 1000], [0, 1, 2])
    func again(inlineThreshold: Int, kind: Int) throws {
        var (world, other, one, two, _) = try aside { $0.inlineThreshold = inlineThreshold }
        try (kind == 1 ? two : one).setString("again", forKey: "k", ttl: .seconds(100))
        if kind == 2 { try two.setTimeToLive(.forever, forKey: "k") }
        world.files.kill()
        other.files.kill()
        let image = world.files.restarted().image
        for image in [image, World.withoutIndex(image)] {
            world.restart(with: image)
            let cache = try world.open()
            _ = try cache.removeValue(forKey: "another")
            #expect([nil, "again"].contains(cache.string(forKey: "k")))
            try cache.flush()
            #expect(cache.string(forKey: "k") == "again")
            if kind == 2 {
                world.clock.advance(by: .seconds(1000))
                #expect(cache.string(forKey: "k") == "again")
            }
        }
    }

    // B2, B3
    @Test("an older file that cannot be deleted is hidden by what is set aside", arguments: [false, true])
    func undeletable(isIndexLost: Bool) throws {
        let first = try aside()
        var world = first.world
        let (other, one, old) = (first.other, first.one, first.old)
        if !isIndexLost { try one.flush() }
        world.files.kill()
        other.files.kill()
        let image = world.files.restarted().image
        world.restart(with: isIndexLost ? World.withoutIndex(image) : image)
        let picky = PickyFileSystem(world.files)
        picky.mayRemove.withLock { $0 = { $0 != old } }
        do {
            let cache = try world.open(through: picky)
            #expect(cache.string(forKey: "k") == nil)
            try cache.flush()
            #expect(cache.string(forKey: "k") == nil)
        }
        let names = world.entryFiles
        world.killAndLoseIndex()
        let cache = try world.open()
        try cache.flush()
        #expect(cache.string(forKey: "k") == nil, "\(names)")
    }

    @Test("a cleaner that owes an older file keeps the value set aside that hides it")
    func cleaner() throws {
        let world = World.shared {
            $0.sweepInterval = nil
            $0.inlineThreshold = 1000
            $0.segmentLength = 4096
        }
        let other = world.anotherProcess()
        let picky = PickyFileSystem(world.files)
        let (one, two) = (try world.open(through: picky), try other.open())
        try one.setString(String(repeating: "o", count: 5000), forKey: "k", ttl: .forever)
        let old = try #require(world.entryFiles.last)
        picky.mayRemove.withLock { $0 = { $0 != old } }
        try one.setString("new", forKey: "k", ttl: .forever)
        for number in 0..<30 {
            try one.setString(String(repeating: "f", count: 500), forKey: "f\(number)", ttl: .forever)
        }
        let segments = world.segments
        check(try two.removeValue(forKey: "k"), true)
        #expect(two.store.index.hasFilesAside)
        for number in 0..<30 { try one.removeValue(forKey: "f\(number)") }
        for _ in 0..<3 {
            one.store.cleaner.cleanInBackground(isShort: true)
            one.settle()
        }
        let names = "\(segments) \(world.segments) \(world.entryFiles)"
        world.files.kill()
        other.files.kill()
        var next = world
        next.restart(with: World.withoutIndex(world.files.restarted().image))
        let cache = try next.open()
        try cache.flush()
        #expect(cache.string(forKey: "k") == nil, "\(names)")
    }

    /// F3, V: a set of one whose last sync is held, and fails.
    private func failing(
        _ act: (_ one: DiskCache, _ two: DiskCache, _ world: World) throws -> Void,
        then check: (_ one: DiskCache, _ two: DiskCache, _ world: World, _ other: World, _ failed: Bool) throws -> Void
    ) throws {
        let world = World.shared {
            $0.sweepInterval = nil
            $0.durability = .powerSafe
        }
        let other = world.anotherProcess()
        let picky = PickyFileSystem(world.files)
        let (one, two) = (try world.open(through: picky), try other.open())
        try one.setString("old", forKey: "z", ttl: .forever)
        try one.setString("new", forKey: "z", ttl: .forever)
        try two.removeValue(forKey: "z")
        try one.setString("kept", forKey: "k", ttl: .forever)
        let before = picky.syncs.withLock { $0 }
        try one.setString("kept", forKey: "l", ttl: .forever)
        let each = picky.syncs.withLock { $0 } - before
        let hold = MemoryFileSystem.Hold()
        picky.held.withLock { $0 = (picky.syncs.withLock { $0 } + each, hold) }
        let isDone = DispatchSemaphore(value: 0)
        let hasFailed = Lock(false)
        DispatchQueue.global().async {
            do { try one.setString("failed", forKey: "k", ttl: .forever) } catch { hasFailed.withLock { $0 = true } }
            isDone.signal()
        }
        hold.reached.wait()
        #expect(two.string(forKey: "k") == "failed")
        try act(one, two, world)
        hold.free.signal()
        isDone.wait()
        #expect(hasFailed.withLock { $0 })
        try check(one, two, world, other, hasFailed.withLock { $0 })
    }

    @Test("making room does not delete the file that a failed change restores")
    func takeBackForRoom() throws {
        try failing { _, two, _ in
            #expect(two.store.index.hasFilesAside)
            two.trim(toFreeSpace: 1)
        } then: { one, two, world, _, _ in
            #expect(one.string(forKey: "k") == "kept", "\(world.entryFiles)")
            #expect(two.string(forKey: "k") == "kept", "\(world.entryFiles)")
        }
    }

    @Test("a value removed while its set fails stays away", arguments: [false, true])
    func takeBackRemoved(isLost: Bool) throws {
        try failing { _, two, _ in
            check(try two.removeValue(forKey: "k"), true)
        } then: { one, two, world, other, _ in
            #expect(one.string(forKey: "k") == nil)
            #expect(two.string(forKey: "k") == nil)
            for _ in 0..<2 {
                for cache in [one, two] {
                    try cache.flush()
                    cache.settle()
                }
            }
            let names = world.entryFiles
            #expect(names.count == 1, "only l's is left: \(names)")
            world.files.kill()
            other.files.kill()
            var next = world
            let image = world.files.restarted().image
            next.restart(with: isLost ? World.withoutIndex(image) : image)
            let cache = try next.open()
            #expect(cache.string(forKey: "k") == nil)
            try cache.flush()
            #expect(cache.string(forKey: "k") == nil, "\(names)")
        }
    }

    @Test("verifying finds nothing wrong", arguments: [0, 1000])
    func verifying(inlineThreshold: Int) throws {
        let (world, _, one, two, _) = try aside { $0.inlineThreshold = inlineThreshold }
        #expect(try one.verify().isClean, "one, \(world.entryFiles)")
        #expect(try two.verify().isClean, "two, \(world.entryFiles)")
    }

    @Test("a limit makes room on a full disk beside an idle process that owes a file", arguments: [0], [false, true])
    func idlePeer(inlineThreshold: Int, owes: Bool) throws {
        let world = World.shared {
            $0.sweepInterval = nil
            $0.countLimit = 1000
            $0.inlineThreshold = inlineThreshold
            $0.segmentLength = 65536
        }
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        try one.setString("old", forKey: "z", ttl: .forever)
        if owes { try one.setString("new", forKey: "z", ttl: .forever) }
        let big = String(repeating: "x", count: inlineThreshold > 0 ? 900 : 100_000)
        for number in 0..<(inlineThreshold > 0 ? 500 : 5) { try two.setString(big, forKey: "\(number)", ttl: .forever) }
        world.files.limitFreeSpace(to: 12_000)
        for number in 0..<4 {
            let failure = code {
                try two.setString(String(repeating: "y", count: 100_000), forKey: "last \(number)", ttl: .forever)
            }
            #expect(failure == nil, "\(number), free: \(world.files.freeSpace), \(world.entryFiles) \(world.segments)")
        }
    }

    enum Setup: CaseIterable { case aside, segment, tag, tagSegment }

    private func image(_ setup: Setup) throws -> (World, MemoryImage) {
        let threshold = setup == .segment || setup == .tagSegment ? 1000 : 0
        if setup == .aside || setup == .segment {
            let first = try aside { $0.inlineThreshold = threshold }
            first.world.files.kill()
            first.other.files.kill()
            return (first.world, first.world.files.restarted().image)
        }
        let world = World.shared {
            $0.sweepInterval = nil
            $0.inlineThreshold = threshold
        }
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        try one.setString("old", forKey: "k", ttl: .forever)
        try two.setString("new", forKey: "k", ttl: .forever, tags: ["t"])
        #expect(one.string(forKey: "k") == "new")
        try one.flush()
        world.files.inject { _, operation in operation == .remove || operation == .rename ? .fail(.io) : nil }
        _ = try? one.removeAll(tagged: "t")
        world.files.kill()
        other.files.kill()
        return (world, world.files.restarted().image)
    }

    @Test("an opening that is killed in any call brings nothing back", arguments: Setup.allCases, [0, 1, 2])
    func killedOpening(setup: Setup, loss: Int) throws {
        var failures: [String] = []
        for call in 1..<600 {
            let (first, image) = try image(setup)
            var world = first
            var start = image
            if loss == 1 { start = World.withoutIndex(image) }
            if loss == 2 {
                start.remove(at: "/cache/shared")
                start.boot += 1
            }
            world.restart(with: start)
            let what = Lock("")
            let isReached = Lock(false)
            world.files.inject { number, operation in
                guard number == call else { return nil }
                isReached.withLock { $0 = true }
                what.withLock { $0 = "\(operation)" }
                return .kill
            }
            if let cache = try? world.open() {
                if cache.string(forKey: "k") != nil { failures.append("first \(call)") }
                cache.settle()
            }
            if !isReached.withLock({ $0 }) { break }
            let names = world.entryFiles
            var next = world
            next.restart(with: World.withoutIndex(world.files.restarted().image))
            let cache = try next.open()
            try cache.flush()
            if let found = cache.string(forKey: "k") {
                failures.append("\(call) \(what.withLock { $0 }): \(found) \(names)")
            }
        }
        #expect(failures == [])
    }

    @Test("a disk without room for another name still hides older values", arguments: [false, true])
    func noName(isLost: Bool) throws {
        let world = World.shared { $0.sweepInterval = nil }
        let other = world.anotherProcess()
        let picky = PickyFileSystem(world.files)
        picky.mayRename.withLock { $0 = { !$0.hasPrefix("10") } }
        let (one, two) = (try world.open(through: picky), try other.open())
        try one.setString("old", forKey: "k", ttl: .forever)
        try two.setString("new", forKey: "k", ttl: .forever)
        check(try one.removeValue(forKey: "k"), true)
        #expect(one.store.index.hasFilesAside)
        #expect(try two.verify().isClean)
        let image = world.files.image
        try two.flush()
        try one.flush()
        #expect(world.entryFiles == [])
        world.files.kill()
        other.files.kill()
        var next = world
        next.restart(with: isLost ? World.withoutIndex(image) : image)
        let cache = try next.open()
        #expect(cache.string(forKey: "k") == nil)
        #expect(cache.entry(forKey: "k") == nil)
        try cache.flush()
        #expect(cache.string(forKey: "k") == nil)
        #expect(try cache.verify().isClean)
        #expect(next.entryFiles == [])
    }

    // SL
    @Test("uses that are written late do not revive what is set aside", arguments: [0, 1000], [0, 1, 2])
    func sliding(inlineThreshold: Int, kind: Int) throws {
        let first = World.shared {
            $0.sweepInterval = nil
            $0.inlineThreshold = inlineThreshold
            $0.slidingExpiry = true
        }
        var world = first
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        try one.setString("old", forKey: "k", ttl: .seconds(1000))
        try two.setString("new", forKey: "k", ttl: .seconds(1000))
        world.clock.advance(by: .seconds(300))
        #expect(two.string(forKey: "k") == "new")
        if kind == 1 { try two.setTimeToLive(.seconds(5000), forKey: "k") }
        check(try one.removeValue(forKey: "k"), true)
        if kind != 2 { try two.store.housekeeper.save(always: true) }
        other.files.kill()
        world.killAndLoseIndex()
        let cache = try world.open()
        #expect(cache.string(forKey: "k") == nil)
        try cache.flush()
        #expect(cache.string(forKey: "k") == nil)
    }
}

private final class PickyFileSystem: ForwardingFileSystem {
    let base: MemoryFileSystem
    let mayRemove = Lock<@Sendable (String) -> Bool>({ _ in true })
    let mayRename = Lock<@Sendable (String) -> Bool>({ _ in true })
    let syncs = Lock(0)
    /// This sync is held, and fails.
    let held = Lock<(number: Int, hold: MemoryFileSystem.Hold)?>(nil)

    init(_ base: MemoryFileSystem) { self.base = base }

    func remove(
        _ name: FileName, in directory: borrowing FileDescriptor, directory isDirectory: Bool
    ) throws(Errno) {
        if !mayRemove.withLock({ $0 })(name.description) { throw .io }
        try base.remove(name, in: directory, directory: isDirectory)
    }

    func rename(
        _ name: FileName, in directory: borrowing FileDescriptor, to newName: FileName,
        in newDirectory: borrowing FileDescriptor
    ) throws(Errno) {
        if !mayRename.withLock({ $0 })(newName.description) { throw .noSpace }
        try base.rename(name, in: directory, to: newName, in: newDirectory)
    }

    func sync(_ file: borrowing FileDescriptor) throws(Errno) {
        let number = syncs.withLock { syncs in
            syncs += 1
            return syncs
        }
        if let found = held.withLock({ $0 }), found.number == number {
            found.hold.reached.signal()
            found.hold.free.wait()
            throw .io
        }
        try base.sync(file)
    }
}
