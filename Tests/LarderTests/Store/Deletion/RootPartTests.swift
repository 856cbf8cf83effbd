import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("A handle sees, counts, lists and removes only its own part")
struct RootPartTests {
    /// Three entries without a namespace, two in "a", and one in a namespace inside "a".
    func filled(_ world: World) throws -> DiskCache {
        let cache = try world.open()
        for number in 0..<3 { try cache.setString("root", forKey: "\(number)") }
        for number in 0..<2 { try cache.namespace("a").setString("of a", forKey: "\(number)") }
        try cache.namespace("a").namespace("x").setString("inside", forKey: "0")
        return cache
    }

    /// Checks that all calls agree on the number of entries in each part.
    func expect(_ counts: [Int], in cache: DiskCache, _ context: Comment? = nil) {
        let parts = [cache, cache.namespace("a"), cache.namespace("a").namespace("x"), cache.namespace("x")]
        for (part, count) in zip(parts, counts + [0]) {
            #expect(part.count == count && part.keys().count == count && part.entries().count == count, context)
            #expect(part.payloadSize == part.entries().reduce(0) { $0 + $1.payloadSize }, context)
        }
        cache.checkInvariants()
    }

    @Test("count, size, keys and entries agree, and removeAll leaves the other parts, even after restarts")
    func parts() throws {
        for removed in 0...3 {
            var world = World()
            var cache = try filled(world)
            expect([3, 2, 1], in: cache)
            var counts = [3, 2, 1]
            switch removed {
            case 0: try cache.namespace("").removeAll()
            case 1: try cache.namespace("a").removeAll()
            case 2: try cache.namespace("a").namespace("x").removeAll()
            default: try cache.removeAll()
            }
            if removed < 3 { counts[removed] = 0 } else { counts = [0, 0, 0] }
            expect(counts, in: cache, "removed \(removed)")
            #expect(cache.statistics.removals == 6 - counts.reduce(0, +))
            world.restart()
            cache = try world.open()
            expect(counts, in: cache, "killed, removed \(removed)")
            try cache.close()
            cache = try world.open()
            expect(counts, in: cache, "closed, removed \(removed)")
            try cache.flush()
            cache.checkInvariants(world, settled: true)
        }
    }

    @Test("namespaces nest: their names are joined by U+001F, and an empty one is the handle's own part")
    func nested() async throws {
        let world = World()
        let disk = try world.open()
        let inner = disk.namespace("a").namespace("x")
        try inner.setString("inner", forKey: "k", tags: ["t"])
        try disk.namespace("x").setString("x", forKey: "k", tags: ["t"])
        try disk.namespace("a").setString("a", forKey: "k", tags: ["t"])
        #expect(disk.namespace("a\u{1F}x").string(forKey: "k") == "inner")
        #expect(disk.namespace("a").namespace("").string(forKey: "k") == "a")
        #expect(inner.namespace("").namespace("").string(forKey: "k") == "inner")
        #expect(disk.namespace("").namespace("x").string(forKey: "k") == "x")
        #expect(inner.entry(forKey: "k")?.namespace == "a\u{1F}x")
        let cache = Cache<String>(disk: disk.namespace("a"), namespace: "x")
        #expect(await cache.value(forKey: "k") == "inner" && cache.disk?.count == 1)
        let same = Cache<String>(disk: disk.namespace("a"), namespace: "")
        #expect(await same.value(forKey: "k") == "a")
        try inner.setString("newer", forKey: "k", tags: ["t"])
        #expect(await cache.value(forKey: "k") == "newer", "the memory tier belongs to this part")
        try disk.namespace("x").removeAll()
        try disk.namespace("a").removeAll(tagged: "t")
        try await same.removeAll()
        #expect(await cache.value(forKey: "k") == "newer")
        try await cache.removeAll()
        #expect(disk.store.index.totals.count == 0)
        let long = disk.namespace(String(repeating: "n", count: 40 << 10))
        #expect(code { try long.namespace("m").setString("v", forKey: "k") } == nil)
        #expect(
            code { try long.namespace(String(repeating: "n", count: 30 << 10)).setString("v", forKey: "k") }
                == .tooLarge)
    }

    @Test("its clear has its own bytes, in a record and in a tombstone that version 1 leaves alone")
    func golden() {
        let scope = ClearScope.namespace(.none)
        let record = #"{"o":"clear","ns":"","n":20,"c":"f67fababff2e0806"}"#
        #expect(RecordTests.text(.clear(scope, number: 20)) == record)
        let bytes = EntryFile.tombstone(of: .scope(scope), number: 20)
        let hex = bytes.dropFirst(record.utf8.count).map { FileName.number(UInt64($0)).description.suffix(2) }
        #expect(bytes.starts(with: record.utf8))
        #expect(
            hex.joined()
                == "ffffffffffffff7fffffffffffffff7f1400000000000000b238dbc3b507b32d0144be76fc9d8fad33000000000000006c617264657220656e7472792030320a"
        )
        func read(_ bytes: [UInt8]) -> EntryFile.Tombstone { bytes.withBytes { EntryFile.tombstone(20, $0) } }
        #expect(read(bytes) == .valid(.scope(scope)))
        for position in bytes.indices where !(bytes.count - 64..<bytes.count - 32).contains(position) {
            var flipped = bytes
            flipped[position] ^= 1
            #expect(read(flipped) != .valid(.scope(scope)), "byte \(position)")
            #expect(read(Array(bytes.prefix(position))) == .invalid)
        }
        let asVersion1 = Array(bytes.dropLast(2) + Array("1\n".utf8))
        #expect(read(asVersion1) == .invalid)
        // Version 1 recognizes the end of such a file as that of a newer version.
        let isNewer: Bool = bytes.withBytes {
            if case .newer = EntryFile.footer(of: 20, tail: $0, fileSize: bytes.count) { true } else { false }
        }
        #expect(isNewer)
        let forged = RecordTests.checked(#"{"o":"clear","ns":"","tg":["t"],"n":17"#)
        #expect(RecordTests.scan(forged) == nil, "a tag of no namespace has no field")
    }

    @Test("both kinds of clear cost the same at ten entries as at a thousand", arguments: [10, 1000])
    func constantCost(entries: Int) throws {
        let world = World { $0.sweepInterval = nil }
        let cache = try world.open()
        for number in 0..<entries {
            try cache.setString("root", forKey: "\(number)")
            try cache.namespace("a").setString("of a", forKey: "\(number)")
        }
        try cache.flush()
        try cache.setString("the first change opens the journal", forKey: "warm")
        try cache.store.maintenance.alone {
            let (own, whole) = (CallCounter(), CallCounter())
            world.files.inject(own.count)
            try cache.namespace("").removeAll()
            #expect(own.all == [.create: 1, .lock: 1, .open: 1, .write: 3])
            #expect(cache.count == 0 && cache.namespace("a").count == entries)
            world.files.inject(whole.count)
            try cache.removeAll()
            #expect(whole.number(of: .rename) == 2 && whole.number(of: .write) == 1)
            #expect(whole.number(of: .remove) == 0 && cache.namespace("a").count == 0)
        }
        cache.settle()
        #expect(world.entryFiles == [] && cache.statistics.removals == 2 * entries + 1)
        cache.checkInvariants(world, settled: true)
    }

    @Test("removeAll leaves unread files, which may be in a namespace", arguments: [false, true])
    func unread(isReadable: Bool) throws {
        var world = World { $0.sweepInterval = nil }
        var cache = try world.open()
        try cache.namespace("a").setString("of a", forKey: "k")
        for number in 0..<(isReadable ? 1_200 : 5) { try cache.setString("root", forKey: "\(number)") }
        let file = "/cache/entries/" + world.entryFiles[0]
        var image = world.files.image
        for name in world.names where name != "entries" { image.remove(at: "/cache/" + name) }
        world.restart(with: image)
        world.files.setUnreadable(!isReadable, at: file)
        cache = try world.open()
        try cache.namespace("").removeAll()
        #expect(cache.string(forKey: "3") == nil && cache.string(forKey: "4") == nil)
        try cache.setString("new", forKey: "k")
        image = world.files.image
        for _ in 0..<2 {
            world.files.setUnreadable(false, at: file)
            try cache.flush()
            #expect(cache.namespace("a").string(forKey: "k") == "of a")
            #expect(cache.keys() == ["k"] && cache.count == 1)
            cache.checkInvariants(world, settled: true)
            // Again, killed right after the call.
            world.restart(with: image)
            cache = try world.open()
            #expect(cache.string(forKey: "3") == nil && cache.string(forKey: "k") == "new")
        }
    }

    @Test("on a full disk it is removed for good, or the call throws")
    func fullDisk() throws {
        var world = World { $0.sweepInterval = nil }
        var cache = try filled(world)
        for number in 0..<1_200 { try cache.setString("root", forKey: "\(number)") }
        var image = world.files.image
        for name in world.names where name != "entries" { image.remove(at: "/cache/" + name) }
        world.restart(with: image)
        cache = try world.open()
        world.files.inject { _, operation in operation == .create || operation == .write ? .fail(.noSpace) : nil }
        let isRemoved = code { try cache.namespace("").removeAll() } == nil
        image = world.files.image
        for name in image.names(at: "/cache") where name != "entries" { image.remove(at: "/cache/" + name) }
        world.restart(with: image)
        cache = try world.open()
        try cache.flush()
        if isRemoved { #expect(cache.keys() == []) }
        #expect(cache.namespace("a").count == 2 && cache.namespace("a").namespace("x").count == 1)
    }

    @Test(
        "removing it spares memory tiers and fetches of namespaces, but not its own", arguments: [false, true])
    func spared(hasNamespaces: Bool) async throws {
        for clearsAll in [false, true] {
            let disk = try World().open()
            let root = Cache<String>(disk: disk, namespace: "")
            let space = Cache<String>(disk: disk, namespace: "n")
            if hasNamespaces { try await space.setValue("v", forKey: "stored") }
            try await root.setValue("v", forKey: "k")
            space.memoryTier?.setValue("alone", forKey: "in memory")
            let (source, own) = (HandDrivenSource<String>(), HandDrivenSource<String>())
            let caller = begin { try await space.value(forKey: "fetched") { try await source.fetch() } }
            let other = begin { try await root.value(forKey: "fetched") { try await own.fetch() } }
            await until("they have begun") { source.begun == 1 && own.begun == 1 }
            if clearsAll { try disk.removeAll() } else { try await root.removeAll() }
            #expect(root.memory?.count == 0)
            #expect(space.memoryTier?.value(forKey: "in memory") == (clearsAll ? nil : "alone"))
            await source.answer("fetched")
            await own.answer("fetched")
            #expect(try await (caller.value, other.value) == ("fetched", "fetched"))
            #expect(await space.value(forKey: "fetched") == (clearsAll ? nil : "fetched"))
            #expect(await root.value(forKey: "fetched") == nil, "the fetch began before the clear")
            #expect(await space.value(forKey: "stored") == (clearsAll || !hasNamespaces ? nil : "v"))
        }
    }

    @Test(
        "removing or expiring everything ends fetches in namespaces without entries, in every process",
        arguments: [false, true], [false, true])
    func fetches(expires: Bool, elsewhere: Bool) async throws {
        let world = World.shared()
        let disk = try world.open()
        let other = try world.anotherProcess().open()
        let cache = Cache<String>(disk: elsewhere ? other : disk, namespace: "empty")
        let source = HandDrivenSource<String>()
        let caller = begin { try await cache.value(forKey: "k") { try await source.fetch() } }
        await until("it has begun") { source.begun == 1 }
        if expires { try disk.expireAll() } else { try disk.removeAll() }
        await source.answer("fetched")
        #expect(try await caller.value == "fetched")
        #expect(await cache.value(forKey: "k") == nil && disk.namespace("empty").string(forKey: "k") == nil)
        disk.settle()
        other.settle()
        #expect(disk.namespace("empty").keys() == [] && other.namespace("empty").keys() == [])
    }

    @Test("namespaces get no event when this part is cleared, but one when everything is")
    func events() throws {
        let (root, space) = (EventLog(), EventLog())
        let world = World { $0.onEvent = root.note }
        let disk = try filled(world)
        let stop = disk.namespace("a").observe(space.note)
        try disk.namespace("").removeAll()
        try disk.setString("v", forKey: "k")
        try disk.removeAll()
        func lines(_ log: EventLog) -> [String] { log.events(of: disk).map(\.description) }
        #expect(lines(root) == ["cleared 3 entries", "cleared 4 entries in all namespaces"])
        #expect(lines(space) == ["cleared 4 entries in all namespaces"])
        stop()
    }

    @Test("clearing the rest loses no concurrent set in a namespace, and no cleared entry comes back")
    func concurrently() throws {
        let first = RunSeed.seed()
        print("clears of the part without a namespace during sets: seeds from \(first)")
        for seed in first..<first + UInt64(Sample.size(25, usually: 10)) {
            var generator = SeededGenerator(seed: seed)
            var world = World()
            let large = Array(repeating: UInt8(ascii: "l"), count: 300_000)
            _ = try world.files.openDirectory(path: "/files", creation: .plain)
            var image = world.files.image
            image.add(large, at: "/files/large")
            world.restart(with: image)
            let cache = try world.open()
            for number in 0..<20 { try cache.setString("root", forKey: "\(number)") }
            if generator.chance(30) { try cache.namespace("1").setString("early", forKey: "early") }
            let seeds = (0..<4).map { _ in UInt64.random(in: .min ... .max, using: &generator) }
            DispatchQueue.concurrentPerform(iterations: 4) { thread in
                var generator = SeededGenerator(seed: seeds[thread])
                do {
                    if thread == 0 {
                        for _ in 0..<20 {
                            try cache.namespace("").removeAll()
                            try cache.setString("root", forKey: "later")
                        }
                        return
                    }
                    let space = cache.namespace("\(thread)")
                    for number in 0..<12 {
                        if generator.chance(15) {
                            try space.copyFile(at: URL(fileURLWithPath: "/files/large"), forKey: "\(number)")
                        } else {
                            try space.setString("v", forKey: "\(number)")
                        }
                        if generator.chance(20) { try cache.namespace("").removeAll() }
                        #expect(space.hasValue(forKey: "\(number)"), "seed \(seed)")
                    }
                } catch {
                    Issue.record(error)
                }
            }
            try cache.namespace("").removeAll()
            func check(_ cache: DiskCache, _ context: Comment) {
                for thread in 1..<4 {
                    let keys = (0..<12).filter { cache.namespace("\(thread)").data(forKey: "\($0)") != nil }
                    #expect(keys.count == 12, context)
                }
                #expect(cache.keys() == [], context)
            }
            check(cache, "seed \(seed)")
            image = world.files.image
            for isLost in [false, true] {
                if isLost {
                    for name in image.names(at: "/cache") where name != "entries" { image.remove(at: "/cache/" + name) }
                }
                world.restart(with: image)
                let reopened = try world.open()
                check(reopened, "killed, the index lost: \(isLost), seed \(seed)")
                try reopened.flush()
                check(reopened, "after the flush, the index lost: \(isLost), seed \(seed)")
                reopened.checkInvariants(world, settled: true)
            }
        }
    }
}
