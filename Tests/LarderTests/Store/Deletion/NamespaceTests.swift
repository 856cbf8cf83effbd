import Dispatch
import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("Namespaces: separate keys in one directory", .storm)
struct NamespaceTests {
    @Test("one key in three namespaces is three entries in every call, and after a restart")
    func identity() throws {
        var world = World.grouped()
        var cache = try world.open()
        let names = ["", "e\u{301}", "\u{e9}"]
        for name in names {
            try cache.namespace(name).setString("of \(name.utf8.count)", forKey: "k", metadata: ["in": name])
        }
        try cache.namespace("other").setString("1", forKey: "only here")
        func check(_ cache: DiskCache) throws {
            for name in names {
                let space = cache.namespace(name)
                #expect(space.string(forKey: "k") == "of \(name.utf8.count)")
                #expect(space.keys() == ["k"])
                #expect(space.entries().map(\.namespace) == [name.isEmpty ? nil : name])
                #expect(space.entry(forKey: "k")?.metadata == ["in": name])
                #expect(!space.hasValue(forKey: "only here"))
                #expect(space.count == 1 && space.payloadSize == "of 0".count)
            }
            #expect(cache.count == 1 && cache.store.index.totals.count == 4)
            cache.checkInvariants()
        }
        try check(cache)
        try cache.close()
        cache = try world.open()
        try check(cache)
        world.restart()
        cache = try world.open()
        try check(cache)
        let image = world.files.image
        for lost in [["manifest"], ["journal"], ["manifest", "journal"]] {
            var damaged = image
            for name in world.names where lost.contains(where: name.hasPrefix) { damaged.remove(at: "/cache/" + name) }
            world.restart(with: damaged)
            cache = try world.open()
            try cache.flush()
            try check(cache)
        }
        #expect(try cache.namespace(names[1]).removeValue(forKey: "k"))
        #expect(try cache.namespace(names[2]).setTimeToLive(.seconds(1), forKey: "k"))
        #expect(cache.string(forKey: "k") == "of 0")
        world.clock.advance(by: .seconds(2))
        #expect(names.map { cache.namespace($0).hasValue(forKey: "k") } == [true, false, false])
    }

    @Test("the record has the namespace, and entries without metadata share its object")
    func record() throws {
        var entry = RecordTests.entry
        let shared = Attachments(.init(namespace: Namespace("users")))
        entry.attachments = shared
        #expect(
            RecordTests.text(.set(entry)).hasPrefix(#"{"k":"a/b","ns":"users","n":17,"s":1763632800000,"#))
        let clear = RecordTests.text(.clear(.namespace(Namespace("users")), number: 20))
        #expect(clear == #"{"o":"clear","ns":"users","n":20,"c":"d65812a1ebb68eca"}"#)
        let key = Key("a/b", in: Namespace("users"))
        #expect(
            RecordTests.text(.remove(key: key, number: 18)).hasPrefix(#"{"o":"remove","k":"a/b","ns":"users","n":18"#))
        #expect(Attachments() == nil)
        let world = World.grouped()
        var cache = try world.open()
        func attachments() -> Set<ObjectIdentifier> {
            var found: Set<ObjectIdentifier> = []
            cache.store.index.loadAll()
            cache.store.index.forEachShard { shard in
                for entry in shard.table.entries { entry.attachments.map { _ = found.insert(ObjectIdentifier($0)) } }
            }
            return found
        }
        let space = cache.namespace("users")
        for number in 0..<100 { try space.setString("v", forKey: "\(number)") }
        #expect(attachments().count == 1)
        try cache.close()
        cache = try world.open()
        #expect(attachments().count == 1)
        #expect(cache.namespace("users").keys().count == 100)
    }

    @Test("removing one costs the same at ten entries as at three thousand", arguments: [10, 3000])
    func constantCost(entries: Int) throws {
        let world = World.grouped { $0.sweepInterval = nil }
        let cache = try world.open()
        let space = cache.namespace("users")
        for number in 0..<entries { try space.setString("v", forKey: "\(number)") }
        try cache.flush()
        try cache.setString("the first change opens the journal", forKey: "warm")
        let counter = CallCounter()
        // Background work is held up meanwhile.
        try cache.store.maintenance.alone {
            world.files.inject(counter.count)
            try space.removeAll()
            #expect(counter.all == [.create: 1, .lock: 1, .open: 1, .write: 3])
            #expect(space.count == 0 && space.payloadSize == 0 && space.keys() == [] && space.entries().isEmpty)
            #expect(cache.count == 1)
            #expect(!space.hasValue(forKey: "1") && space.string(forKey: "1") == nil)
            try space.setString("again", forKey: "1")
            #expect(space.string(forKey: "1") == "again" && space.count == 1)
            #expect(world.entryFiles.count == entries + 3)
            cache.checkInvariants()
        }
        cache.settle()
        #expect(world.entryFiles.count == 2)
        #expect(cache.statistics.removals == entries)
        cache.checkInvariants(world, settled: true)
    }

    @Test("on a full disk it can still be removed: some of its files make room", arguments: [1, 5, 1000])
    func fullDisk(needed: Int) throws {
        let world = World.grouped { $0.saveDelay = .seconds(1000) }
        let cache = try world.open()
        let space = cache.namespace("users")
        for number in 0..<300 { try space.setString("v", forKey: "\(number)") }
        try cache.setString("stays", forKey: "k")
        let removed = Lock(0)
        world.files.inject { _, operation in
            if operation == .remove { removed.withLock { $0 += 1 } }
            let isFull = removed.withLock { $0 } < needed
            return isFull && (operation == .create || operation == .write) ? .fail(.noSpace) : nil
        }
        #expect(code { try cache.setString("v", forKey: "new") } == .noSpace)
        try space.removeAll()
        #expect(space.keys() == [] && space.count == 0 && cache.string(forKey: "k") == "stays")
        world.files.inject(nil)
        try cache.flush()
        cache.checkInvariants(world, settled: true)
        #expect(cache.keys() == ["k"])
    }

    @Test("a removal that a full disk kept from being recorded still lasts, from the first read after a kill")
    func unrecorded() async throws {
        var world = World.grouped()
        var cache = try world.open()
        for number in 0..<10 { try cache.namespace("users").setString("v", forKey: "\(number)") }
        cache.settle()
        let image = try cache.store.maintenance.alone {
            let writes = Lock(0)
            world.files.inject { _, operation in
                guard operation == .write else { return nil }
                // The tombstone is written, its record is not. Finishing the tombstone needs no room.
                return writes.withLock { writes in
                    writes += 1
                    return (2...3).contains(writes) ? .fail(.noSpace) : nil
                }
            }
            try cache.namespace("users").removeAll()
            #expect(cache.namespace("users").keys() == [])
            return world.files.image
        }
        world.restart(with: image)
        cache = try world.open()
        let users = Cache<String>(disk: cache, namespace: "users")
        for number in 0..<10 { #expect(await users.value(forKey: "\(number)") == nil) }
        try cache.flush()
        cache.checkInvariants(world, settled: true)
        #expect(world.entryFiles == [])
        try cache.close()
        cache = try world.open()
        #expect(cache.namespace("users").keys() == [] && cache.count == 0)
    }

    @Test("a tombstone with any flipped bit is invalid")
    func forged() throws {
        let bytes = EntryFile.tombstone(of: .scope(.namespace(Namespace("users"))), number: 17)
        func read(_ bytes: [UInt8], number: UInt64 = 17) -> EntryFile.Tombstone {
            bytes.withBytes { EntryFile.tombstone(number, $0) }
        }
        #expect(read(bytes) == .valid(.scope(.namespace(Namespace("users")))))
        #expect(read(bytes, number: 18) == .invalid && read([]) == .invalid)
        #expect(read(Array("payload".utf8) + bytes) == .invalid)
        #expect(read(bytes.dropLast(2) + Array("2\n".utf8)) == .newer)
        for position in bytes.indices where !(bytes.count - 64..<bytes.count - 32).contains(position) {
            var flipped = bytes
            flipped[position] ^= 1
            #expect(read(flipped) != .valid(.scope(.namespace(Namespace("users")))), "byte \(position)")
            #expect(read(Array(bytes.prefix(position))) == .invalid)
        }
        let line = #"{"o":"clear","ns":"","n":17"#
        let check = Array(line.utf8).withBytes { XXH64.hash($0) }
        let unnamed = line + #","c":"\#(FileName.number(check))"}"#
        guard case .clear(.namespace(.none), 17)? = Array(unnamed.utf8).withBytes({ RecordScanner.record(on: $0) })
        else {
            Issue.record("a clear of the part without a namespace is read as one of everything")
            return
        }
        // A tombstone under another name is not trusted either.
        var world = World.grouped()
        let cache = try world.open()
        try cache.namespace("users").setString("v", forKey: "k")
        var image = world.files.image
        image.add(bytes, at: "/cache/entries/0000000000000011")
        image.add(
            EntryFile.tombstone(of: .scope(.namespace(Namespace("users"))), number: 18),
            at: "/cache/entries/4000000000000011")
        world.restart(with: image)
        let reopened = try world.open()
        try reopened.flush()
        #expect(reopened.namespace("users").string(forKey: "k") == "v")
        #expect(world.entryFiles.count == 1)
    }

    @Test("an unreadable tombstone does not affect values stored later")
    func unreadTombstone() throws {
        var world = World.grouped()
        var cache = try world.open()
        for number in 0..<20 { try cache.namespace("users").setString("v", forKey: "\(number)") }
        let image = try cache.store.maintenance.alone {
            try cache.namespace("users").removeAll()
            var image = world.files.image
            for name in world.names where name != "entries" { image.remove(at: "/cache/" + name) }
            for name in world.entryFiles where !name.hasPrefix("40") { image.remove(at: "/cache/entries/" + name) }
            return image
        }
        world.restart(with: image)
        let reads = Lock(0)
        world.files.inject { _, operation in
            guard operation == .read else { return nil }
            return reads.withLock { reads in
                reads += 1
                // The first read proves that the directory is a cache.
                return reads == 2 ? .fail(.io) : nil
            }
        }
        cache = try world.open()
        try cache.namespace("users").setString("new", forKey: "k")
        try cache.flush()
        #expect(world.entryFiles.count == 1, "it was read again, and is no longer needed")
        world.restart()
        cache = try world.open()
        try cache.flush()
        #expect(cache.namespace("users").string(forKey: "k") == "new")
        cache.checkInvariants(world, settled: true)
    }

    @Test("several threads remove two namespaces, and neither comes back after a kill")
    func concurrently() throws {
        for round in 0..<20 {
            var world = World.grouped()
            let cache = try world.open()
            for name in 0..<4 {
                for number in 0..<30 { try cache.namespace("\(name)").setString("v", forKey: "\(number)") }
            }
            DispatchQueue.concurrentPerform(iterations: 4) { name in
                do { try cache.namespace("\(name)").removeAll() } catch { Issue.record(error) }
            }
            var image = world.files.image
            for name in world.names where name != "entries" { image.remove(at: "/cache/" + name) }
            world.restart(with: image)
            let reopened = try world.open()
            try reopened.flush()
            #expect(reopened.count == 0, "round \(round)")
            reopened.checkInvariants(world, settled: true)
        }
    }

    @Test("the next save deletes a tombstone whose files another program has deleted")
    func lateTombstone() throws {
        let world = World.grouped()
        let cache = try world.open()
        try cache.namespace("users").setString("v", forKey: "k")
        let isFirst = Lock(true)
        world.files.inject { _, operation in
            guard operation == .remove else { return nil }
            return isFirst.withLock { isFirst in
                defer { isFirst = false }
                return isFirst ? .fail(.io) : nil
            }
        }
        try cache.namespace("users").removeAll()
        cache.settle()
        #expect(world.entryFiles.count == 2)
        try cache.namespace("users").removeValue(forKey: "k")
        try cache.flush()
        #expect(world.entryFiles == [])
        try cache.close()
        #expect(
            String(decoding: world.files.image.content(at: "/cache/" + (try world.journal)) ?? [], as: UTF8.self)
                .contains("closed"))
    }

    @Test("undeletable files stay dead, and are deleted later")
    func stuckFiles() throws {
        var world = World.grouped()
        var cache = try world.open()
        for number in 0..<20 { try cache.namespace("users").setString("v", forKey: "\(number)") }
        world.files.inject { _, operation in operation == .remove ? .fail(.io) : nil }
        try cache.namespace("users").removeAll()
        cache.settle()
        #expect(world.entryFiles.count == 21)
        #expect(cache.namespace("users").keys() == [])
        #expect(try cache.verify().orphans == 0)
        // The old journal cannot be deleted either.
        #expect(code { try cache.close() } == .io)
        var image = world.files.image
        for name in world.names where name != "entries" { image.remove(at: "/cache/" + name) }
        for _ in 0..<2 {
            world.restart(with: image)
            world.files.inject { _, operation in operation == .remove ? .fail(.io) : nil }
            cache = try world.open()
            cache.settle()
            #expect(cache.namespace("users").keys() == [])
            image = world.files.image
        }
        world.restart()
        cache = try world.open()
        try cache.flush()
        #expect(world.entryFiles == [])
        try cache.close()
    }

    @Test("a tombstone stays as long as a file that it covers, even if it could be deleted")
    func tombstoneIsLast() throws {
        var world = World.grouped()
        var cache = try world.open()
        for number in 0..<20 { try cache.namespace("users").setString("v", forKey: "\(number)") }
        let removals = Lock(0)
        world.files.inject { _, operation in
            guard operation == .remove else { return nil }
            return removals.withLock { removals in
                removals += 1
                return removals <= 20 ? .fail(.io) : nil
            }
        }
        try cache.namespace("users").removeAll()
        cache.settle()
        #expect(removals.withLock { $0 } == 20 && world.entryFiles.count == 21)
        var image = world.files.image
        for name in world.names where name != "entries" { image.remove(at: "/cache/" + name) }
        world.restart(with: image)
        cache = try world.open()
        try cache.flush()
        #expect(cache.namespace("users").keys() == [] && world.entryFiles == [])
    }

    @Test("events have the namespace")
    func events() throws {
        let log = EventLog()
        let world = World.grouped { $0.onEvent = log.note }
        let cache = try world.open()
        for name in ["a", "b"] {
            try cache.namespace(name).setString("v", forKey: "k", ttl: .seconds(1))
            try cache.namespace(name).setString("w", forKey: "k", ttl: .seconds(1))
        }
        try cache.namespace("a").removeValue(forKey: "k")
        try cache.namespace("a").setString("v", forKey: "k", ttl: .seconds(1))
        world.clock.set(milliseconds: world.clock.milliseconds + 1000)
        _ = cache.removeExpired()
        try cache.namespace("a").setString("v", forKey: "k")
        try cache.namespace("a").removeAll()
        let events = log.events(of: cache).map { "\($0.kind) \($0.namespace ?? "none") \($0.keys) \($0.count)" }
        #expect(
            events.prefix(3) == [#"replaced a ["k"] 1"#, #"replaced b ["k"] 1"#, #"removed a ["k"] 1"#])
        #expect(Set(events[3..<5]) == [#"expired a ["k"] 1"#, #"expired b ["k"] 1"#])
        #expect(events.last == "cleared a [] 1")
    }

    @Test(
        "a shard forgets cleared entries at once and takes them out in slices", arguments: 1...4 as ClosedRange<UInt64>)
    func manifest(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var manifest = EntryTable()
        manifest.keepOrder(counting: AccessCounter(), at: Timestamp(milliseconds: 0))
        var model: [Key: UInt64] = [:]
        var taken: Set<UInt64> = []
        var dead: Set<UInt64> = []
        let spaces = ["", "a", "b"].map { Namespace($0) }
        for number in 1...4000 as ClosedRange<UInt64> {
            let space = spaces.randomElement(using: &generator) ?? .none
            let key = Key("k\(Int.random(in: 0..<300, using: &generator))", in: space)
            switch Int.random(in: 0..<200, using: &generator) {
            case 0..<120:
                var entry = RecordTests.entry
                entry.keyText = key.text
                entry.file = FileID(number)
                entry.attachments = Attachments(.init(namespace: space))
                entry.stored.milliseconds = -1
                entry.life.ttl = Life.unlimited
                entry.life.expires.milliseconds = Int64.random(in: 0..<1_000_000, using: &generator)
                #expect(manifest.publish(entry, for: key)?.file.number == model[key])
                model[key] = number
            case 120..<150:
                #expect(manifest.remove(key)?.file.number == model.removeValue(forKey: key))
            case 150..<152:
                let gone = model.filter { $0.key.namespace == space }
                #expect(manifest.clear(.namespace(space), below: number).count == gone.count)
                dead.formUnion(gone.values)
                model = model.filter { $0.key.namespace != space }
            case 152..<190:
                #expect(manifest.entry(key)?.file.number == model[key])
                #expect(manifest.use(key, at: .init(milliseconds: -1), sliding: false)?.file.number == model[key])
            case 190..<193:
                for entry in manifest.removeExpired(at: .init(milliseconds: Int64(number) * 50), limit: 3) {
                    #expect(model.removeValue(forKey: entry.key) == entry.file.number)
                }
            default:
                for entry in manifest.takeCleared(limit: 40) ?? [] { taken.insert(entry.file.number) }
                #expect(taken.isSubset(of: dead))
            }
            if number % 100 == 0 {
                #expect(manifest.violations() == [])
                #expect(manifest.count == model.count)
                let entries = manifest.snapshot.filter { $0.file != 0 }
                #expect(Set(entries.map(\.file.number)) == Set(model.values))
            }
        }
        while let entries = manifest.takeCleared(limit: 40) { taken.formUnion(entries.map(\.file.number)) }
        #expect(taken == dead)
        #expect(manifest.violations() == [])
        print("namespaces in a shard: seed \(seed), \(dead.count) entries cleared")
    }
}
