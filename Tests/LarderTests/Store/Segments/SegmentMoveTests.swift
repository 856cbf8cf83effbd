import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// Each of these failed once.
@Suite("Moved values, and what happens beside a move", .storm)
struct SegmentMoveTests {
    private typealias Cleaning = SegmentCleaningTests

    private static func segment(_ world: World, _ number: UInt64) -> String {
        "entries/segments/" + FileName.number(number).description
    }

    @Test("a record of a moved, renewed value does not undo a removal with a lower number than the renewal")
    func order() {
        var entry = RecordTests.entry
        entry.file = FileID(5)
        entry.change = 5
        var moved = entry
        moved.file = FileID(number: 5, place: Place(segment: 9, offset: 128)!)
        moved.change = 8
        var mover = Record.Placer()
        var remover = Record.Placer()
        let records =
            [Record.set(entry), .set(moved)].map { mover.place($0) }
            + [remover.place(.remove(key: entry.key, number: 7))]
        var shard = Shard()
        for record in Record.inOrder(records) { _ = shard.apply(record, of: entry.key) }
        #expect(shard.table.entry(entry.key) == nil)
    }

    @Test("while a stripe is held for long, work that has the locks of a shard passes it over")
    func stripeHeldForLong() throws {
        let world = Cleaning.world {
            $0.sharing = .processes
            // One in the background would have the right to sweep.
            $0.sweepInterval = nil
        }
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        try Cleaning.fill(one)
        let membership = one.store.disk.others.object.membership
        let stripe = Key("1").stripe
        #expect(membership.tryLockForLong(stripe: stripe) && !membership.tryLockForLong(stripe: stripe))
        #expect(!membership.lockUnlessElsewhere(stripe: stripe))
        #expect(!two.store.disk.others.object.membership.tryLock(stripe: stripe))
        try one.setString("short", forKey: "1", ttl: .minutes(1))
        world.clock.advance(by: .hours(1))
        #expect(one.removeExpired() == 0 && one.store.index.entry("1") != nil)
        membership.unlockForLong(stripe: stripe)
        #expect(one.removeExpired() == 1 && one.store.index.entry("1") == nil)
        #expect(membership.lockUnlessElsewhere(stripe: stripe))
        membership.unlock(stripe: stripe)
    }

    private static let modes: [(sharing: DiskCache.Sharing, format: ManifestFormat)] = [
        (.processes, .json), (.exclusive, .json), (.exclusive, .propertyList),
    ]

    @Test(
        "a copy that was waiting when the index was saved stays once it is recorded",
        arguments: Sample.few(2, of: modes), Sample.few(1, of: [true, false]))
    func savedBetween(_ mode: (sharing: DiskCache.Sharing, format: ManifestFormat), isKilled: Bool) throws {
        var world = Cleaning.world {
            $0.sharing = mode.sharing
            $0.manifestFormat = mode.format
        }
        let cache = try world.open()
        // So many that closing does not save them again.
        for key in 0..<1_200 { try cache.setString("v", forKey: "other \(key)", ttl: .forever) }
        try Cleaning.fill(cache)
        let store = cache.store
        // The steps of a move: the copy, a save by another thread, the record. The cleaner waits.
        try store.maintenance.alone {
            store.reaper.deleteAllObsolete()
            let old = try #require(store.index.entry("1"))
            let directory = try #require(store.disk.runAnyway { $0 })
            let value = Array(Cleaning.lastValue(1).utf8)
            let copied = try value.withUnsafeBytes { try store.writer.copy(old, $0, in: directory) }
            let copy = try #require(copied).entry
            directory.segments.hold([copy.file.place.segment])
            store.index.withShard(of: "1") { $0.markObsolete(copy.file, of: "1") }
            try store.housekeeper.save(always: true)
            store.info.commitIfPossible(Changes(.set(copy))) {
                store.index.withShard(of: "1") { $0.move(copy, from: old.file, of: "1") }
            }
            directory.movedWriter.end(copy.file.place)
            directory.segments.letGo()
        }
        store.reaper.deleteAllObsolete()
        #expect(cache.string(forKey: "1") == Cleaning.lastValue(1))
        if !isKilled { try cache.close() }
        world.files = world.files.restarted()
        let again = try world.open()
        again.settle()
        for key in Cleaning.keys { #expect(Cleaning.stored(key, in: again) == Cleaning.lastValue(key), "\(key)") }
        try again.flush()
        for key in Cleaning.keys { #expect(Cleaning.stored(key, in: again) == Cleaning.lastValue(key), "\(key)") }
        again.checkInvariants(world, settled: true)
    }

    @Test("nothing is moved after a kill until all files have been compared with the index")
    func leftoversFirst() throws {
        var world = Cleaning.world { $0.sharing = .exclusive }
        let cache = try world.open()
        try cache.store.maintenance.alone {
            try Cleaning.fill(cache)
            cache.store.reaper.deleteAllObsolete()
            try cache.store.housekeeper.save(always: true)
            try cache.setString("later", forKey: "later", ttl: .forever)
            world.files.kill()
        }
        world.files = world.files.restarted()
        let isListable = Flag()
        // The opening lists names, too.
        let thread = ObjectIdentifier(Thread.current)
        world.files.inject { _, operation in
            guard operation == .list, !isListable.isSet else { return nil }
            return ObjectIdentifier(Thread.current) == thread ? nil : .fail(.tooManyOpenFiles)
        }
        let again = try world.open()
        again.store.cleaner.cleanInBackground(isShort: true)
        again.settle()
        #expect(again.store.provisional.hasLeftovers && again.statistics.segments.movedBytes == 0)
        isListable.set()
        try again.flush()
        again.store.cleaner.cleanInBackground(isShort: true)
        try again.flush()
        #expect(!again.store.provisional.hasLeftovers && again.statistics.segments.movedBytes > 0)
        for key in Cleaning.keys { #expect(Cleaning.stored(key, in: again) == Cleaning.lastValue(key), "\(key)") }
        again.checkInvariants(world, settled: true)
    }

    @Test("an entry that was written in part and marked hides no later one", arguments: [false, true])
    func partOfDeadEntry(losesIndex: Bool) throws {
        var world = SegmentTests.world()
        var cache = try world.open()
        for key in 0..<4 { try cache.setString("value \(key)", forKey: "\(key)", ttl: .forever) }
        let place = try #require(cache.store.index.entry("1")?.file.place)
        try cache.removeValue(forKey: "1")
        try cache.flush()
        world.restart()
        // The header announces more than was written: others follow inside of it.
        try world.damage(Self.segment(world, place.segment)) { bytes in
            let salt = bytes.withBytes { $0.word(at: 24) }
            var entry = RecordTests.entry
            entry.size = 500
            entry.file = FileID(number: 2, place: place)
            let words = SegmentFormat.entryHeader(entry, recordLength: 200, recordCheck: 1, salt: salt)
            var header = withUnsafeBytes(of: words) { Array($0) }
            header.replaceSubrange(SegmentFormat.markOffset..<64, with: SegmentFormat.mark)
            bytes.replaceSubrange(place.offset..<place.offset + 64, with: header)
        }
        if losesIndex { world.loseIndex() }
        cache = try world.open()
        for key in [0, 2, 3] { #expect(cache.string(forKey: "\(key)") == "value \(key)") }
        for round in 0..<40 { try cache.setString("filler \(round)", forKey: "f") }
        try cache.flush()
        for key in [0, 2, 3] { #expect(cache.string(forKey: "\(key)") == "value \(key)") }
        #expect(cache.string(forKey: "1") == nil)
    }

    @Test("a segment of another boot is not continued")
    func otherBoot() throws {
        var world = SegmentTests.world()
        var generator = SeededGenerator(seed: 3)
        for (round, isCut) in [false, true, false].enumerated() {
            let cache = try world.open()
            try cache.setString("v", forKey: "\(round)")
            #expect(world.segments.count == (round < 2 ? 1 : 2), "round \(round)")
            if isCut {
                world.files.syncAll()
                world.restart(with: world.files.imageAfterPowerCut(using: &generator))
            } else {
                world.restart()
            }
        }
    }

    @Test("a value whose header or record is damaged is moved with the others, or its segment stays")
    func damagedHeader() throws {
        for offset in [33, 50] {
            var world = Cleaning.world()
            var cache = try world.open()
            try Cleaning.fill(cache)
            let place = try #require(cache.store.index.entry("3")?.file.place)
            try cache.close()
            world.restart()
            try world.damage(Self.segment(world, place.segment)) { $0[place.offset + offset] ^= 1 }
            cache = try world.open()
            Self.clean(cache)
            #expect(cache.statistics.segments.cleaned > 1)
            #expect(cache.store.index.entry("3")?.file.place != place)
            Cleaning.check(cache, Cleaning.filled, "byte \(offset)")
        }
    }

    /// Cleans all segments that are dirty.
    private static func clean(_ cache: DiskCache) {
        cache.store.cleaner.cleanInBackground(isShort: true)
        cache.settle()
    }

    @Test("one read that fails keeps no other segment from being cleaned")
    func failedRead() throws {
        let original = try Cleaning.dirty()
        var all: Int?
        for number in 0... {
            var world = original
            world.restart()
            let cache = try world.open()
            cache.settle()
            let reads = Lock(0)
            world.files.inject { _, operation in
                guard operation == .read else { return nil }
                return reads.withLock { reads in
                    reads += 1
                    return reads == number ? .fail(.io) : nil
                }
            }
            Self.clean(cache)
            world.files.inject(nil)
            let cleaned = cache.statistics.segments.cleaned
            if number == 0 { all = cleaned }
            #expect(cleaned >= (all ?? 0) - 1 && cleaned > 0, "read \(number)")
            Cleaning.check(cache, Cleaning.filled, "read \(number)")
            if number > reads.withLock({ $0 }) { break }
        }
        #expect(try #require(all) > 1)
    }

    @Test("a sync that fails while values are moved, and a power cut, lose no value", arguments: [false, true])
    func failedSync(persistent: Bool) throws {
        let original = try Cleaning.dirty()
        var generator = SeededGenerator(seed: 21)
        for number in 1... {
            var world = original
            world.restart()
            let cache = try world.open()
            cache.settle()
            world.files.syncAll()
            let syncs = Lock(0)
            world.files.inject { _, operation in
                guard operation == .sync else { return nil }
                return syncs.withLock { syncs in
                    syncs += 1
                    return syncs == number || persistent && syncs > number ? .fail(.io) : nil
                }
            }
            Self.clean(cache)
            cache.store.reaper.deleteAllObsolete()
            for part in 0..<Sample.size(6, usually: 2) {
                var after = world
                after.restart(with: world.files.imageAfterPowerCut(using: &generator))
                Cleaning.check(try after.open(), Cleaning.filled, "sync \(number), part \(part)")
            }
            world.files.inject(nil)
            Cleaning.check(cache, Cleaning.filled, "sync \(number)")
            try cache.flush()
            Self.clean(cache)
            #expect(cache.store.index.obsoleteCount == 0)
            if number > syncs.withLock({ $0 }) { break }
        }
    }

    @Test("a save that begins another journal between two records of a move, and fails, loses nothing in a power cut")
    func saveBetweenRecords() throws {
        let world = try Cleaning.dirty { $0.sharing = .processes }
        let cache = try world.open()
        cache.settle()
        // Beside another process, the stripes are moved one after another.
        let other = try world.anotherProcess().open()
        world.files.syncAll()
        let hold = MemoryFileSystem.Hold()
        let seen = Lock((syncs: 0, hasWritten: false))
        world.files.inject { _, operation in
            seen.withLock { seen in
                // The first sync after writes is that of the header of a segment, the next that of the copies of a
                // stripe. Their record is written then, and the copies of the next stripe are synced.
                let isNext = operation == .sync && seen.hasWritten
                if isNext { seen.syncs += 1 }
                if operation == .write || operation == .sync { seen.hasWritten = operation == .write }
                return isNext && seen.syncs == 3 ? .hold(hold) : nil
            }
        }
        cache.store.cleaner.cleanInBackground(isShort: true)
        hold.reached.wait()
        world.files.inject { _, operation in operation == .rename ? .fail(.io) : nil }
        #expect(cache.statistics.segments.movedBytes > 0)
        #expect(throws: CacheError.self) { try cache.store.housekeeper.save(always: true) }
        hold.free.signal()
        cache.settle()
        #expect(cache.statistics.segments.movedBytes > 0)
        Cleaning.check(other, Cleaning.filled, "the other process")
        var generator = SeededGenerator(seed: 7)
        for part in 0..<20 {
            var after = world
            after.restart(with: world.files.imageAfterPowerCut(using: &generator))
            Cleaning.check(try after.open(), Cleaning.filled, "part \(part)")
        }
    }

    @Test("a renewal during a move is kept by the copy that stays, whatever is lost")
    func renewedMeanwhile() throws {
        var original = Cleaning.world()
        // So little that no writer waits for the cleaning.
        let filled = try original.open()
        try Cleaning.fill(filled, rounds: 2)
        filled.settle()
        original.restart()
        let renewed = Cleaning.keys.filter { $0 % 3 == 0 && $0 % 4 != 0 }
        for number in 1... {
            var world = original
            world.restart()
            var cache = try world.open()
            cache.settle()
            let (hold, syncs) = (MemoryFileSystem.Hold(), Lock(0))
            world.files.inject { _, operation in
                guard operation == .sync else { return nil }
                return syncs.withLock { syncs in
                    syncs += 1
                    return syncs == number ? .hold(hold) : nil
                }
            }
            let cleaned = cache
            let isDone = DispatchSemaphore(value: 0)
            DispatchQueue.global().async {
                Self.clean(cleaned)
                isDone.signal()
                hold.reached.signal()
            }
            hold.reached.wait()
            let isRenewed = DispatchSemaphore(value: 0)
            DispatchQueue.global().async {
                for key in renewed { #expect((try? cleaned.setTimeToLive(.hours(1), forKey: "\(key)")) == true) }
                isRenewed.signal()
            }
            // It may have to wait for the call that is held.
            let isFree = isRenewed.wait(timeout: .now() + .milliseconds(100)) == .success
            let image = world.files.image
            hold.free.signal()
            isDone.wait()
            if !isFree { isRenewed.wait() }
            world.files.inject(nil)
            if isFree { world.restart(with: image) } else { world.restart() }
            for _ in 0..<2 {
                world.loseIndex()
                cache = try world.open()
                cache.settle()
                world.restart()
            }
            world.loseIndex()
            world.clock.advance(by: .hours(2))
            cache = try world.open()
            for key in renewed { #expect(cache.string(forKey: "\(key)") == nil, "sync \(number): \(key)") }
            #expect(cache.namespace("space").string(forKey: "0") == Cleaning.lastValue(0), "sync \(number)")
            if syncs.withLock({ $0 }) < number { break }
        }
    }

    @Test("a segment that another process has deleted is closed by the next sweep")
    func closed() throws {
        let world = Cleaning.world {
            $0.sharing = .processes
            $0.sweepInterval = .seconds(60)
        }
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        try Cleaning.fill(one)
        Cleaning.check(two, Cleaning.filled, "before")
        var most = 0
        for _ in 0..<6 {
            try Cleaning.fill(one)
            try one.flush()
            most = max(most, other.files.openDeletedCount)
            Cleaning.check(two, Cleaning.filled, "after")
            world.clock.advance(by: .seconds(61))
            two.settle()
        }
        func sweep() {
            world.clock.advance(by: .seconds(61))
            for cache in [one, two] { cache.settle() }
        }
        func cleaned() -> Int { one.statistics.segments.cleaned + two.statistics.segments.cleaned }
        var before: [Int]
        repeat {
            before = [cleaned(), world.segments.count]
            sweep()
        } while before != [cleaned(), world.segments.count]
        // What the last sweep of the one has deleted, the next sweep of the other closes.
        sweep()
        #expect(cleaned() > 12)
        #expect(most > 0 && other.files.openDeletedCount == 0)
        Cleaning.check(two, Cleaning.filled, "after")
    }
}
