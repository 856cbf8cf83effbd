import Dispatch
import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("An index that is loaded group by group", .storm)
struct GroupsTests {
    /// A directory after a clean close, with a journal.
    static func filled(
        _ count: Int = 40, entriesPerGroup: Int = 3, _ configure: (inout DiskCache.Configuration) -> Void = { _ in }
    ) throws -> World {
        var world = World {
            $0.sweepInterval = nil
            $0.saveDelay = .seconds(3600)
            $0.entriesPerGroup = entriesPerGroup
            configure(&$0)
        }
        let cache = try world.open()
        for number in 0..<count { try cache.setString("v\(number)", forKey: "k\(number)") }
        for number in 0..<count / 4 { try cache.namespace("n").setString("n\(number)", forKey: "k\(number)") }
        try cache.flush()
        try cache.setString("w1", forKey: "k1")
        try cache.removeValue(forKey: "k2")
        try cache.close()
        world.restart()
        return world
    }

    private func value(_ number: Int) -> String? {
        switch number {
        case 1: "w1"
        case 2: nil
        default: "v\(number)"
        }
    }

    static func table(_ world: World) throws -> (table: GroupTable, bytes: [UInt8], last: Range<Int>) {
        let bytes = try #require(world.files.image.content(at: "/cache/manifest.json"))
        let lines = bytes.dropLast(3)
        let start = try #require(lines.lastIndex(of: UInt8(ascii: "\n"))) + 1
        guard case .record(.groups(let table)) = Array(lines[start...]).withBytes({ Line($0) }) else {
            throw CocoaError(.coderReadCorrupt)
        }
        return (table, bytes, start..<lines.endIndex)
    }

    @Test("the question whether there may be an entry loads nothing")
    func mayHave() throws {
        let index = try Self.filled(1_000, entriesPerGroup: 30).open().store.index
        let groups = try #require(index.unloaded)
        let key = try #require((0..<1_000).map { Key("k\($0)") }.first { !groups.isLoaded(groups.hash.group(of: $0)) })
        #expect(index.mayHaveEntry(key))
        #expect(!groups.isLoaded(groups.hash.group(of: key)))
        index.loadAll()
        #expect(!index.mayHaveEntry(Key("none")))
    }

    @Test("work that begins while the index is replaced notices that")
    func replacedMeanwhile() throws {
        let cache = try Self.filled(1_000, entriesPerGroup: 30).open()
        let index = cache.store.index
        let groups = try #require(index.unloaded)
        let (isHeld, free, isDone) = (
            DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0)
        )
        let before = try #require(index.replacements)
        DispatchQueue.global().async {
            groups.withState { _ in
                isHeld.signal()
                free.wait()
            }
        }
        isHeld.wait()
        // It waits for the groups.
        Thread.detachNewThread {
            let fresh = Array(repeating: Shard(), count: Index.shardCount)
            index.replace(with: fresh, groups, isSameDirectory: true, at: .now)
            isDone.signal()
        }
        while index.replacements == before { sched_yield() }
        #expect(index.replacements == nil)
        free.signal()
        isDone.wait()
        #expect(index.replacements == before + 1)
    }

    @Test("an opening reads as many bytes for 4,000 entries as for 1,000, and loads nothing; a read loads one group")
    func constantCost() throws {
        var costs: [(opening: Int, besidesGroup: Int)] = []
        for count in [1_000, 4_000] {
            let world = try Self.filled(count, entriesPerGroup: count / 32)
            let before = world.files.bytesRead
            let cache = try world.open()
            let opened = world.files.bytesRead
            let index = cache.store.index
            #expect(index.unloaded?.unloaded().count == index.unloaded?.hash.count)
            #expect(cache.count == count - 1 && cache.namespace("n").count == count / 4)
            #expect(cache.string(forKey: "k3") == "v3")
            #expect(index.unloaded?.unloaded().count == index.unloaded.map { $0.hash.count - 1 })
            let (table, _, _) = try Self.table(world)
            let group = table.groups[table.hash.group(of: Key("k3"))]
            costs.append((opened - before, world.files.bytesRead - opened - group.length))
            let closing = world.files.bytesRead
            try cache.close()
            #expect(world.files.bytesRead - closing < 1_000, "closing loads nothing")
        }
        #expect(costs[1].opening < costs[0].opening + 200, "\(costs)")
        for cost in costs { #expect((0..<200).contains(cost.besidesGroup), "\(costs)") }
    }

    @Test("sums are right at once, and stay right while groups are loaded, changed and saved")
    func sums() throws {
        var world = try Self.filled()
        let cache = try world.open()
        #expect(cache.count == 39 && cache.namespace("n").count == 10)
        var generator = SeededGenerator(seed: 5)
        for round in 0..<60 {
            let key = "k\(Int.random(in: 0..<50, using: &generator))"
            let (isThere, count) = (cache.hasValue(forKey: key), cache.count)
            if generator.chance(50) {
                try cache.setString("new", forKey: key)
                #expect(cache.count == count + (isThere ? 0 : 1))
            } else {
                #expect(try cache.removeValue(forKey: key) == isThere)
                #expect(cache.count == count - (isThere ? 1 : 0))
            }
            if round % 10 == 9 { try cache.flush() }
        }
        let (count, size) = (cache.count, cache.payloadSize)
        try cache.close()
        world.restart()
        let again = try world.open()
        #expect(again.count == count && again.payloadSize == size && again.namespace("n").count == 10)
        #expect(again.keys().count == count)
        again.checkInvariants(world, settled: true)
    }

    @Test("a save copies the groups that are not loaded, and loads none")
    func streamed() throws {
        var world = try Self.filled()
        let cache = try world.open()
        try cache.setString("new", forKey: "k3")
        let left = cache.store.index.unloaded?.unloaded().count
        #expect(left ?? 0 > 4)
        try cache.flush()
        #expect(cache.store.index.unloaded?.unloaded().count == left)
        // From the new manifest.
        #expect(cache.string(forKey: "k9") == "v9" && cache.string(forKey: "k3") == "new")
        try cache.close()
        world.restart()
        let again = try world.open()
        for number in 4..<40 { #expect(again.string(forKey: "k\(number)") == value(number)) }
        #expect(again.string(forKey: "k3") == "new" && again.string(forKey: "k2") == nil)
        again.checkInvariants(world, settled: true)
    }

    @Test("threads that touch one group parse it once")
    func parsedOnce() throws {
        let world = try Self.filled()
        let cache = try world.open()
        let groups = try #require(cache.store.index.unloaded)
        let group = groups.hash.group(of: Key("k5"))
        let keys = (0..<40).map { "k\($0)" }.filter { groups.hash.group(of: Key($0)) == group }
        let counter = CallCounter()
        world.files.inject(counter.count)
        DispatchQueue.concurrentPerform(iterations: 8) { thread in
            _ = cache.hasValue(forKey: keys[thread % keys.count])
        }
        #expect(counter.number(of: .read) <= 1 + 2, "the group, and the lines that wait for it")
    }

    /// Acts at once, then checks after the recovery; if `whole`, every value, and once more after the loss of the
    /// index.
    private func expectRecovered(_ world: World, _ context: Comment, whole isWhole: Bool = true) throws {
        var world = world
        let cache = try world.open()
        // At once. A miss is allowed until the files are listed.
        let read = cache.string(forKey: "k7")
        #expect(read == nil || read == "v7", context)
        try cache.removeValue(forKey: "k5")
        try cache.setString("new", forKey: "k6")
        #expect(cache.string(forKey: "k6") == "new", context)
        #expect(cache.string(forKey: "k5") == nil, context)
        let numbers = isWhole ? Array(0..<40) : [1, 2, 5, 6, 39]
        for number in numbers {
            let found = cache.string(forKey: "k\(number)")
            #expect(found == nil || found == value(number) || number == 6 && found == "new", context)
        }
        try cache.flush()
        func check(_ cache: DiskCache) {
            for number in numbers {
                let expected = number == 5 ? nil : number == 6 ? "new" : value(number)
                #expect(cache.string(forKey: "k\(number)") == expected, "k\(number), \(context)")
            }
            #expect(cache.namespace("n").keys().count == 10, context)
        }
        check(cache)
        if !isWhole { return }
        cache.checkInvariants(world, settled: true)
        world.loseIndex()
        let rebuilt = try world.open()
        try rebuilt.flush()
        check(rebuilt)
    }

    /// Flips a bit in the middle of a group of the manifest.
    static func damage(_ group: Int, of world: inout World) throws {
        let table = try table(world).table
        let offset = table.start + table.groups[..<group].reduce(0) { $0 + $1.length }
        try world.damage("manifest.json") { $0[offset + table.groups[group].length / 2] ^= 1 }
    }

    @Test("damage to any byte of the last record costs nothing")
    func lastRecord() throws {
        let original = try Self.filled()
        let last = try Self.table(original).last
        for position in Sample.of(last) {
            var world = original
            try world.damage("manifest.json") { $0[position] ^= 1 << UInt8(position % 8) }
            try expectRecovered(world, "byte \(position)", whole: position % 7 == 0)
        }
    }

    @Test("damage to a group is found when it is touched, and costs nothing", arguments: 0..<8)
    func damagedGroup(group: Int) throws {
        var world = try Self.filled()
        try Self.damage(group, of: &world)
        try expectRecovered(world, "group \(group)")
    }

    @Test("a group from an older manifest is damage, not an older value")
    func swappedGroups() throws {
        var world = try Self.filled()
        let (old, oldBytes, _) = try Self.table(world)
        let cache = try world.open()
        // The same length, so that the group fits.
        for number in 7..<40 where number.isMultiple(of: 3) { try cache.setString("x\(number)", forKey: "k\(number)") }
        try cache.flush()
        try cache.close()
        world.restart()
        let (new, _, _) = try Self.table(world)
        #expect(new.seed == old.seed && new.groups.count == old.groups.count)
        var (offset, oldOffset) = (new.start, old.start)
        var swapped = 0
        try world.damage("manifest.json") { bytes in
            for (now, before) in zip(new.groups, old.groups) {
                if now.length == before.length, now.check != before.check {
                    bytes.replaceSubrange(offset..<offset + now.length, with: oldBytes[oldOffset...].prefix(now.length))
                    swapped += 1
                }
                offset += now.length
                oldOffset += before.length
            }
        }
        let again = try world.open()
        for number in 7..<40 where number.isMultiple(of: 3) {
            let found = again.string(forKey: "k\(number)")
            #expect(found == nil || found == "x\(number)")
        }
        try again.flush()
        for number in 7..<40 where number.isMultiple(of: 3) {
            #expect(again.string(forKey: "k\(number)") == "x\(number)", "\(swapped) groups")
        }
        again.checkInvariants(world, settled: true)
    }

    @Test("a manifest of version 1 is read whole, and the next save writes version 2")
    func versionOne() throws {
        var world = try Self.filled()
        let (table, bytes, last) = try Self.table(world)
        var manifest = Array(("[" + RecordTests.checked(#"{"larder":1,"g":\#(table.generation),"n":99"#) + "\n").utf8)
        manifest += bytes[table.start..<last.lowerBound] + Array("]\n".utf8)
        try world.damage("manifest.json") { $0 = manifest }
        let cache = try world.open()
        #expect(cache.store.index.unloaded == nil && cache.count == 39 && cache.string(forKey: "k1") == "w1")
        try cache.setString("new", forKey: "k3")
        try cache.close()
        world.restart()
        let second = try world.open()
        #expect(second.string(forKey: "k3") == "new")
        try second.setString("newer", forKey: "k3")
        try second.flush()
        try second.close()
        world.restart()
        let third = try world.open()
        #expect(third.store.index.unloaded != nil && third.string(forKey: "k3") == "newer" && third.count == 39)
    }

    @Test("after a kill nothing is listed before the first answer, and every value is there at once")
    func killed() throws {
        // After a kill beside other processes, the files are listed in the background.
        var world = try Self.filled { $0.sharing = .exclusive }
        let first = try world.open()
        for number in 10..<20 { try first.setString("w\(number)", forKey: "k\(number)") }
        try first.removeValue(forKey: "k20")
        world.restart()
        let cache = try world.open()
        #expect(!cache.store.provisional.isSet)
        for number in 10..<20 { #expect(cache.string(forKey: "k\(number)") == "w\(number)") }
        #expect(cache.string(forKey: "k20") == nil && cache.string(forKey: "k21") == "v21")
        #expect(cache.count == 38)
        try cache.flush()
        cache.checkInvariants(world, settled: true)
    }

    @Test("removing the part without a namespace after a kill keeps a namespace that only the journal knows")
    func rootAfterKill() throws {
        var world = World { $0.entriesPerGroup = 3 }
        let first = try world.open()
        for number in 0..<40 { try first.setString("v", forKey: "k\(number)") }
        try first.flush()
        try first.namespace("x").setString("kept", forKey: "k")
        world.restart()
        let cache = try world.open()
        try cache.namespace("").removeAll()
        #expect(cache.namespace("x").string(forKey: "k") == "kept" && cache.string(forKey: "k1") == nil)
        try cache.flush()
        #expect(cache.count == 0 && cache.namespace("x").count == 1)
        world.restart()
        #expect(try world.open().namespace("x").string(forKey: "k") == "kept")
    }

    @Test("a namespace that is removed while a save runs stays removed after a kill")
    func clearedAmidSave() throws {
        var world = try Self.filled()
        let first = try world.open()
        try first.store.maintenance.alone { () throws(CacheError) in
            try first.namespace("n").removeAll()
            // The removed entries are still in the index, and their files in the directory.
            try first.store.frozen.run { () throws(CacheError) in try first.store.frozen.save(always: true) }
            world.restart()
        }
        let cache = try world.open()
        for number in 0..<10 { #expect(cache.namespace("n").string(forKey: "k\(number)") == nil) }
        #expect(cache.string(forKey: "k7") == "v7")
        try cache.flush()
        #expect(cache.namespace("n").keys() == [] && cache.namespace("n").count == 0)
        cache.checkInvariants(world, settled: true)
    }

    @Test("after a change that could not be recorded, the header of the journal asks for a listing")
    func unrecordedNumbers() throws {
        var world = try Self.filled { $0.sharing = .exclusive }
        let cache = try world.open()
        try cache.setString("new", forKey: "k3")
        func header(_ world: World) throws -> String {
            let journal = try #require(world.files.image.content(at: "/cache/" + world.journal))
            return String(decoding: journal.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
        }
        #expect(try !header(world).contains(#""bt":"0000000000000000""#))
        // The file is written first, then the line.
        let writes = Lock(0)
        world.files.inject { _, operation in
            guard operation == .write else { return nil }
            let isLine = writes.withLock { writes in
                writes += 1
                return writes == 2
            }
            return isLine ? .fail(.noSpace) : nil
        }
        #expect(code { try cache.setString("newer", forKey: "k3") } == .noSpace)
        world.files.inject(nil)
        #expect(try header(world).contains(#""bt":"0000000000000000""#))
        world.restart()
        let again = try world.open()
        #expect(again.store.index.unloaded == nil && again.string(forKey: "k3") == "new")
    }

    @Test("a journal line whose fields disagree about its key is damage, and no trap")
    func forgedLine() throws {
        var world = try Self.filled()
        let hash = try Self.table(world).0.hash
        let other = try #require((4..<30).first { hash.group(of: Key("k\($0)")) != hash.group(of: Key("k3")) })
        let forged = RecordTests.checked(
            #"{"k":"k3","n":90,"s":1763632800000,"z":1,"h":"0000000000000000","k":"k\#(other)""#)
        try world.damage(try world.journal) { bytes in
            let closed = bytes.lastIndex(of: UInt8(ascii: "\n"))!
            bytes.insert(contentsOf: Array(("\n" + forged).utf8), at: closed)
        }
        let cache = try world.open()
        try cache.setString("new", forKey: "k30")
        try cache.flush()
        for number in 3..<30 { #expect(cache.string(forKey: "k\(number)") == "v\(number)") }
        try cache.flush()
        #expect(cache.string(forKey: "k30") == "new")
    }

    @Test("entries that expire while only the journal knows them are removed")
    func expiredLines() throws {
        var world = try Self.filled()
        let first = try world.open()
        try first.setString("short", forKey: "short", ttl: .seconds(1))
        try first.close()
        world.restart()
        world.clock.advance(by: .seconds(2))
        let cache = try world.open()
        _ = cache.removeExpired()
        cache.settle()
        #expect(cache.count == 39 && cache.statistics.expirations == 1)
    }

    @Test("after a power cut the files are listed, even if the index seems complete")
    func otherBoot() throws {
        var world = try Self.filled()
        let first = try world.open()
        try first.setString("w10", forKey: "k10")
        var image = world.files.image
        image.boot += 1
        world.restart(with: image)
        let cache = try world.open()
        #expect(cache.store.index.unloaded == nil && cache.string(forKey: "k10") == "w10")
    }
}
