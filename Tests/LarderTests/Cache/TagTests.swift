import Dispatch
import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("Tags: all entries with a tag are removed at once")
struct TagTests {
    @Test("removing a tag removes only the entries with it, in its namespace")
    func removes() async throws {
        var world = World()
        var disk = try world.open()
        func fill(_ disk: DiskCache) async throws {
            let cache = Cache<String>(disk: disk, namespace: "n")
            try await cache.setValue("v", forKey: "a", tags: ["red"])
            try await cache.setValue("v", forKey: "b", tags: ["blue", "red"])
            try await cache.setValue("v", forKey: "c", tags: ["blue"])
            try await cache.setValue("v", forKey: "d", metadata: ["m": "x"], tags: ["e\u{301}"])
            try await cache.setValue("v", forKey: "e", tags: ["\u{e9}"])
            try await cache.setValue("v", forKey: "f")
            _ = try await cache.value(forKey: "g", tags: ["red"]) { "v" }
            _ = try await cache.optionalValue(forKey: "h", tags: ["red"]) { nil }
            _ = try await cache.values(forKeys: ["i", "j"], tags: ["red", ""]) { _ in ["i": "v"] }
            try disk.setString("v", forKey: "a", tags: ["red"])
            try disk.namespace("other").setString("v", forKey: "a", tags: ["red"])
        }
        try await fill(disk)
        #expect(disk.namespace("n").entry(forKey: "b")?.tags == ["blue", "red"])
        let log = EventLog()
        var configuration = Cache<String>.Configuration()
        configuration.onEvent = log.note
        var cache = Cache<String>(disk: disk, namespace: "n", configuration: configuration)
        _ = await cache.value(forKey: "c")
        try await cache.removeAll(tagged: "red")
        #expect(await cache.keys().sorted() == ["c", "d", "e", "f"])
        for key in ["a", "b", "g", "i"] { #expect(await cache.value(forKey: key) == nil) }
        await #expect(throws: SourceFailure.self) {
            try await cache.optionalValue(forKey: "h") { throw SourceFailure() }
        }
        // What is replaced before the background takes it out is not counted as removed.
        disk.settle()
        #expect(try await cache.optionalValue(forKey: "h") { "no longer known to be absent" } != nil)
        #expect(await cache.value(forKey: "c") == "v")
        #expect(disk.string(forKey: "a") == "v" && disk.namespace("other").string(forKey: "a") == "v")
        let told = log.events(of: disk).filter { $0.kind == .cleared }
        #expect(told.map(\.tag) == ["red"] && told.map(\.namespace) == ["n"])
        try disk.removeAll(tagged: "red")
        #expect(disk.string(forKey: "a") == nil && disk.namespace("other").string(forKey: "a") == "v")
        try await cache.removeAll(tagged: "\u{e9}")
        #expect(await cache.keys().sorted() == ["c", "d", "f", "h"], "tags are distinguished by their bytes")
        disk.settle()
        disk.checkInvariants(world, settled: true)
        #expect(disk.namespace("n").count == 4 && disk.namespace("other").count == 1 && disk.count == 0)
        #expect(disk.statistics.removals == 7)
        world.restart()
        disk = try world.open()
        cache = Cache<String>(disk: disk, namespace: "n")
        #expect(await cache.keys().sorted() == ["c", "d", "f", "h"])
        // Values stored with the tag from now on are not affected.
        try await cache.setValue("new", forKey: "a", tags: ["red"])
        world.restart()
        disk = try world.open()
        try disk.flush()
        #expect(disk.namespace("n").string(forKey: "a") == "new")
        #expect(disk.namespace("n").entry(forKey: "d")?.tags == ["e\u{301}"])
    }

    @Test("removing a tag costs the same at ten entries as at three thousand", arguments: [10, 3000])
    func constantCost(entries: Int) throws {
        let world = World { $0.sweepInterval = nil }
        let disk = try world.open()
        let space = disk.namespace("n")
        for number in 0..<entries { try space.setString("v", forKey: "\(number)", tags: ["t", "u"]) }
        try space.setString("stays", forKey: "stays", tags: ["u"])
        try disk.flush()
        try disk.setString("the first change opens the journal", forKey: "warm")
        let counter = CallCounter()
        // Background work is held up meanwhile.
        try disk.store.maintenance.alone {
            world.files.inject(counter.count)
            try space.removeAll(tagged: "t")
            #expect(counter.all == [.create: 1, .lock: 1, .open: 1, .write: 3])
            #expect(space.keys() == ["stays"] && space.entries().count == 1)
            #expect(space.count == entries + 1, "counted until they are taken out")
            #expect(!space.hasValue(forKey: "1") && space.string(forKey: "1") == nil)
            try space.setString("again", forKey: "1", tags: ["t"])
            #expect(space.string(forKey: "1") == "again")
            disk.checkInvariants()
        }
        disk.settle()
        #expect(space.count == 2 && space.keys().sorted() == ["1", "stays"])
        #expect(world.entryFiles.count == 3)
        disk.checkInvariants(world, settled: true)
        // A tag without entries costs no more.
        counter.reset()
        try space.removeAll(tagged: "never seen")
        #expect(space.keys().sorted() == ["1", "stays"])
    }

    @Test("entries with the same tags share their attachments, stored or loaded")
    func memory() throws {
        let world = World()
        var disk = try world.open()
        func attachments() -> Set<ObjectIdentifier> {
            var found: Set<ObjectIdentifier> = []
            disk.store.index.loadAll()
            disk.store.index.forEachShard { shard in
                for entry in shard.table.entries { entry.attachments.map { _ = found.insert(ObjectIdentifier($0)) } }
            }
            return found
        }
        for number in 0..<100 {
            try disk.setString("v", forKey: "\(number)", tags: ["t", number < 50 ? "low" : "high"])
        }
        #expect(attachments().count == 2)
        try disk.close()
        disk = try world.open()
        #expect(attachments().count == 2)
        // Long tags are not pooled for later entries.
        weak var long: Attachments?
        func storeLong() throws {
            try disk.setString("v", forKey: "long", tags: [String(repeating: "t", count: 50_000)])
            let key = disk.key("long")
            long = disk.store.index.withShard(of: key) { $0.table.entry(key)?.attachments }
        }
        try storeLong()
        #expect(long != nil)
        try disk.removeValue(forKey: "long")
        #expect(long == nil)
        try disk.removeAll(tagged: "low")
        #expect(disk.keys().count == 50)
    }

    @Test(
        "an undeletable old file is not forgotten: its successor is deleted after it",
        arguments: [true, false])
    func stuck(_ isTag: Bool) throws {
        var world = World { $0.sweepInterval = nil }
        var disk = try world.open()
        try disk.setString("old", forKey: "k")
        let isBroken = Lock(true)
        let fault: @Sendable (Int, MemoryFileSystem.Operation) -> MemoryFileSystem.Fault? = { _, operation in
            operation == .remove && isBroken.withLock { $0 } ? .fail(.io) : nil
        }
        world.files.inject(fault)
        try disk.setString("new", forKey: "k", tags: ["t"])
        disk.settle()
        world.restart()
        world.files.inject(fault)
        disk = try world.open()
        disk.settle()
        isBroken.withLock { $0 = false }
        if isTag { try disk.removeAll(tagged: "t") } else { try disk.removeValue(forKey: "k") }
        try disk.flush()
        for name in world.names where name.hasPrefix("journal") || name.hasPrefix("manifest") { world.remove(name) }
        disk = try world.open()
        disk.settle()
        #expect(disk.string(forKey: "k") == nil)
    }

    @Test("tags are at most as long as keys")
    func long() throws {
        var world = World { $0.sweepInterval = nil }
        var disk = try world.open()
        let tag = String(repeating: "x", count: 2 << 20)
        #expect(code { try disk.setString("v", forKey: "k", tags: [tag]) } == .tooLarge)
        #expect(code { try disk.removeAll(tagged: tag) } == .tooLarge)
        try disk.setString("w", forKey: "l", tags: [String(tag.prefix(65_536))])
        disk.settle()
        world.restart()
        disk = try world.open()
        #expect(disk.statistics.damagedLines == 0 && disk.keys() == ["l"])
        try disk.removeAll(tagged: String(tag.prefix(65_536)))
        #expect(disk.keys() == [])
    }

    @Test("progress is reported, though the total is not known in advance")
    func progress() throws {
        let disk = try World().open()
        for number in 0..<3000 { try disk.setString("v", forKey: "\(number)", tags: ["t"]) }
        let told = Lock<[Int]>([])
        try disk.removeAll(tagged: "t") { removed, total in
            told.withLock { $0.append(removed) }
            #expect(removed == total)
        }
        disk.settle()
        disk.store.events.drain()
        let numbers = told.withLock { $0 }
        #expect(numbers.last == 3000 && numbers.count > 10 && numbers == numbers.sorted())
    }

    @Test("a tag that is cleared while the limits are enforced costs no other entry")
    func clearedAmidEviction() throws {
        let world = World {
            $0.sweepInterval = nil
            $0.countLimit = 10
        }
        let clock = HookClock()
        let disk = try world.open(clock)
        for number in 0..<10 { try disk.setString("v", forKey: "\(number)", tags: number < 8 ? ["t"] : []) }
        disk.settle()
        clock.arm(1) {
            try? disk.removeAll(tagged: "t")
            try? disk.setString("v", forKey: "one more")
        }
        disk.store.evictor.enforceInBackground()
        disk.settle()
        #expect(Set(disk.keys()) == ["8", "9", "one more"] && disk.statistics.evictions.total == 0)
        disk.checkInvariants()
    }

    @Test("limits do not evict the remaining entries while a tag is cleared")
    func limits() throws {
        let world = World {
            $0.sweepInterval = nil
            $0.countLimit = 1000
        }
        let disk = try world.open()
        for number in 0..<900 { try disk.setString("v", forKey: "\(number)", tags: ["t"]) }
        for number in 900..<1000 { try disk.setString("v", forKey: "\(number)") }
        try disk.removeAll(tagged: "t")
        try disk.setString("v", forKey: "one more")
        disk.settle()
        #expect(disk.statistics.evictions.total == 0)
        #expect(disk.count == 101 && disk.keys().count == 101)
        for number in 0..<950 { try disk.setString("v", forKey: "\(number)", tags: ["t"]) }
        disk.settle()
        let evicted = disk.statistics.evictions.total
        try disk.removeAll(tagged: "t")
        disk.trim(toCount: 60)
        #expect(disk.keys().count == min(60, disk.count))
        #expect(disk.statistics.evictions.total - evicted <= 100)
        disk.checkInvariants()
    }

    @Test("on a full disk a tag can still be removed", arguments: [1, 5, 1000])
    func fullDisk(needed: Int) throws {
        let world = World { $0.saveDelay = .seconds(1000) }
        let disk = try world.open()
        for number in 0..<300 { try disk.setString("v", forKey: "\(number)", tags: ["t"]) }
        try disk.setString("stays", forKey: "k")
        let removed = Lock(0)
        world.files.inject { _, operation in
            if operation == .remove { removed.withLock { $0 += 1 } }
            let isFull = removed.withLock { $0 } < needed
            return isFull && (operation == .create || operation == .write) ? .fail(.noSpace) : nil
        }
        try disk.removeAll(tagged: "t")
        #expect(disk.keys() == ["k"])
        world.files.inject(nil)
        try disk.flush()
        disk.checkInvariants(world, settled: true)
        #expect(disk.keys() == ["k"] && disk.count == 1)
    }

    @Test("a tombstone of a tag with any flipped bit is invalid")
    func tombstone() {
        let scope = ClearScope.tag(Key("red", in: Namespace("users")))
        let bytes = EntryFile.tombstone(of: .scope(scope), number: 17)
        func read(_ bytes: [UInt8], number: UInt64 = 17) -> EntryFile.Tombstone {
            bytes.withBytes { EntryFile.tombstone(number, $0) }
        }
        #expect(read(bytes) == .valid(.scope(scope)))
        #expect(read(bytes, number: 18) == .invalid)
        for position in bytes.indices where !(bytes.count - 64..<bytes.count - 32).contains(position) {
            var flipped = bytes
            flipped[position] ^= 1
            #expect(read(flipped) != .valid(.scope(scope)), "byte \(position)")
            #expect(read(Array(bytes.prefix(position))) == .invalid)
        }
        // An empty list is damage, and a clear with unknown fields is not a clear of everything.
        for line in [#"{"o":"clear","tg":[],"n":17"#, #"{"o":"clear","xx":"half of it","n":17"#] {
            if case .clear? = RecordTests.scan(RecordTests.checked(line)) { Issue.record("\(line)") }
        }
        for line in [
            #"{"o":"clear","ns":"","tg":["a"],"n":17"#, #"{"o":"clear","tg":["a","b"],"n":17"#,
            #"{"o":"clear","tg":[,"n":17"#,
        ] {
            #expect(RecordTests.scan(RecordTests.checked(line)) == nil, "\(line)")
        }
    }

    @Test("a shard clears tags like a plain list", arguments: [1, 2, 3, 4] as [UInt64])
    func model(_ seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var manifest = EntryTable()
        manifest.keepOrder(counting: AccessCounter(), at: Timestamp(milliseconds: 0))
        var model: [Key: (file: UInt64, tags: [Key])] = [:]
        var dead: Set<UInt64> = []
        var taken: Set<UInt64> = []
        let spaces = ["", "a"].map { Namespace($0) }
        for number in 1...4000 as ClosedRange<UInt64> {
            let space = spaces.randomElement(using: &generator) ?? .none
            let tags = ["x", "y", "z"].filter { _ in generator.chance(30) }.map { Key($0, in: space) }
            let key = Key("k\(Int.random(in: 0..<300, using: &generator))", in: space)
            switch Int.random(in: 0..<200, using: &generator) {
            case 0..<130:
                var entry = RecordTests.entry
                entry.keyText = key.text
                entry.file = FileID(number)
                entry.attachments = Attachments(.init(namespace: space, tags: tags, keptStale: 1000))
                #expect(manifest.publish(entry, for: key)?.file.number == model[key]?.file)
                model[key] = (number, tags)
            case 130..<150:
                #expect(manifest.remove(key)?.file.number == model.removeValue(forKey: key)?.file)
            case 150..<153:
                let tag = Key(["x", "y", "z"].randomElement(using: &generator) ?? "", in: space)
                _ = manifest.clear(.tag(tag), below: number)
                dead.formUnion(model.values.filter { $0.tags.contains(tag) }.map(\.file))
                model = model.filter { !$0.value.tags.contains(tag) }
            case 153 where space != .none:
                _ = manifest.clear(.namespace(space), below: number)
                dead.formUnion(model.filter { $0.key.namespace == space }.map(\.value.file))
                model = model.filter { $0.key.namespace != space }
            case 154..<192:
                #expect(manifest.entry(key)?.file.number == model[key]?.file)
            default:
                for entry in manifest.takeCleared(limit: 40) ?? [] { taken.insert(entry.file.number) }
                #expect(taken.isSubset(of: dead))
            }
            if number % 100 == 0 {
                #expect(manifest.violations() == [])
                let entries = manifest.snapshot.filter { $0.file != 0 }
                #expect(Set(entries.map(\.file.number)) == Set(model.values.map(\.file)))
            }
        }
        while let entries = manifest.takeCleared(limit: 40) { taken.formUnion(entries.map(\.file.number)) }
        #expect(taken == dead)
        #expect(manifest.count == model.count)
        #expect(manifest.violations() == [])
        print("tags in a shard: seed \(seed), \(dead.count) entries cleared")
    }

    @Test(
        "callers that join a fetch add their tags to its value, even while it is stored", arguments: Tiers.allCases
    )
    func joined(_ tiers: Tiers) async throws {
        let world = World { $0.sweepInterval = nil }
        let cache: Cache<String> = try tiers.cache(in: world)
        for tag in ["first", "second", "third"] {
            let source = HandDrivenSource<String>()
            let first = begin { try await cache.value(forKey: "k", tags: ["first"]) { try await source.fetch() } }
            await until("it is asked") { source.begun == 1 }
            let joining = ["second", "third", "first"].map { tag in
                begin { try await cache.value(forKey: "k", tags: [tag]) { "never" } }
            }
            await until("they have joined") {
                cache.statistics.fetches.coalesced % 3 == 0 && cache.statistics.fetches.coalesced > 0
            }
            await until("all have") { cache.backend.flights.all.first?.joinedTags(0).count == 3 }
            await source.answer("v")
            _ = try await first.value
            for caller in joining { _ = try await caller.value }
            #expect(await cache.entry(forKey: "k")?.tags.sorted() == ["first", "second", "third"])
            try await cache.removeAll(tagged: "other")
            #expect(await cache.value(forKey: "k") == "v")
            try await cache.removeAll(tagged: tag)
            #expect(await cache.value(forKey: "k") == nil, "\(tag)")
        }
        // A tag cleared while a caller that requested it waits.
        let source = HandDrivenSource<String>()
        let first = begin { try await cache.value(forKey: "k") { try await source.fetch() } }
        await until("it is asked") { source.begun == 1 }
        let second = begin { try await cache.value(forKey: "k", tags: ["late"]) { "never" } }
        await until("it has joined") { cache.backend.flights.all.first?.joinedTags(0).count == 1 }
        try await cache.removeAll(tagged: "late")
        await source.answer("from before")
        #expect(try await (first.value, second.value) == ("from before", "from before"))
        #expect(await cache.value(forKey: "k") == nil)
    }

    @Test("a tag requested while the value is being stored is stored with it")
    func joinedLate() async throws {
        let world = World { $0.sweepInterval = nil }
        let gate = DispatchSemaphore(value: 0)
        let encodes = Lock(0)
        let coder = Coder<String> { value in
            if encodes.withLock({ encodes in
                encodes += 1; return encodes
            }) == 1 {
                gate.wait()
            }
            return Data(value.utf8)
        } decode: {
            String(decoding: $0, as: UTF8.self)
        }
        let cache = Cache(disk: try world.open(), namespace: "n", coder: coder)
        let first = begin { try await cache.value(forKey: "k", tags: ["first"]) { "v" } }
        await until("it is encoded") { encodes.withLock { $0 } == 1 }
        let second = begin { try await cache.value(forKey: "k", tags: ["second"]) { "never" } }
        await until("it has joined") { cache.backend.flights.all.first?.joinedTags(0).count == 1 }
        gate.signal()
        _ = try await (first.value, second.value)
        #expect(await cache.entry(forKey: "k")?.tags == ["first", "second"])
    }

    @Test("without a disk tags and metadata are kept too, and removing a tag removes only its entries")
    func inMemory() async throws {
        let cache: Cache<String> = try Tiers.memoryAlone.cache(in: World())
        let events = cache.events
        try await cache.setValue("v", forKey: "a", tags: ["red"])
        try await cache.setValue("v", forKey: "b", metadata: ["m": "x"], tags: ["red", "blue"])
        try await cache.setValue("v", forKey: "c")
        _ = try await cache.value(forKey: "d", tags: ["red"]) { "v" }
        #expect(try await cache.optionalValue(forKey: "e", tags: ["red"]) { nil } == nil)
        #expect(await cache.entry(forKey: "b")?.metadata == ["m": "x"])
        #expect(await cache.entry(forKey: "b")?.tags == ["red", "blue"])
        try await cache.removeAll(tagged: "green")
        #expect(await cache.keys().sorted() == ["a", "b", "c", "d"])
        try await cache.removeAll(tagged: "red")
        #expect(await cache.keys() == ["c"])
        #expect(try await cache.optionalValue(forKey: "e") { "there" } == "there")
        var removed: [String] = []
        for await event in events where event.kind == .removed {
            removed += event.keys
            if removed.count == 3 { break }
        }
        #expect(removed.sorted() == ["a", "b", "d"])
        // A fetch that was given the value does not bring it back, nor does one whose result has the tag.
        try await cache.setValue("old", forKey: "k", tags: ["t"])
        let source = HandDrivenSource<FetchResult<String>>()
        let caller = begin { try await cache.value(forKey: "k", policy: .reload) { _ in try await source.fetch() } }
        await until("it is asked") { source.begun == 1 }
        try await cache.removeAll(tagged: "t")
        await source.answer(.notModified)
        #expect(try await caller.value == "old")
        #expect(await cache.value(forKey: "k") == nil)
    }
}
