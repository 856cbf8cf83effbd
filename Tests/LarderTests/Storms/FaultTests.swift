import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// The n-th system call of an operation fails, for every n; once with every error, or for good with one of them.
@Suite("Promise 6: failing storage never fails the caller's work", .storm)
struct FaultTests {
    static let errors: [Errno] = [.noSpace, .io, .tooManyOpenFiles, .notPermitted]

    struct Operation: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var durability = Durability.killSafe
        /// The values that the key "k" may have once the operation has thrown, and once it has returned.
        let failed: Set<String?>
        let done: Set<String?>
        var evicts = false
        /// The operation removes the other entries too.
        var clears = false
        var manifestFormat = ManifestFormat.json
        /// The operation waits for background work.
        var waits = false
        let run: @Sendable (DiskCache, World) throws -> Void

        /// The errors take turns, and each operation begins with another.
        func error(_ number: Int) -> Errno {
            FaultTests.errors[(number + testDescription.utf8.count) % FaultTests.errors.count]
        }
    }

    static let large = String(repeating: "large ", count: 50_000)

    static let operations: [Operation] = [
        Operation(testDescription: "set", failed: ["old"], done: ["new"]) { cache, _ in
            try cache.setString("new", forKey: "k")
        },
        Operation(testDescription: "set, power-safe", durability: .powerSafe, failed: ["old"], done: ["new"]) {
            cache, _ in
            try cache.setString("new", forKey: "k")
        },
        Operation(testDescription: "remove", failed: ["old"], done: [nil]) { cache, _ in
            try cache.removeValue(forKey: "k")
        },
        Operation(testDescription: "shorter life", failed: ["old"], done: ["old"]) { cache, _ in
            try cache.setTimeToLive(.seconds(5), forKey: "k")
        },
        Operation(testDescription: "longer life", failed: ["old"], done: ["old"]) { cache, _ in
            try cache.setTimeToLive(.days(5), forKey: "k")
        },
        Operation(testDescription: "removeAll of no namespace", failed: ["old"], done: [nil], clears: true) {
            cache, _ in
            try cache.namespace("beside").setString("v", forKey: "k")
            try cache.namespace("").removeAll()
        },
        Operation(testDescription: "removeAll", failed: ["old"], done: [nil], clears: true) { cache, _ in
            try cache.removeAll()
        },
        Operation(testDescription: "removeAll of a namespace", failed: ["old"], done: ["old"]) { cache, _ in
            try cache.namespace("space").removeAll()
        },
        Operation(
            testDescription: "removeAll of a namespace, power-safe", durability: .powerSafe, failed: ["old"],
            done: ["old"]
        ) { cache, _ in
            try cache.namespace("space").removeAll()
        },
        Operation(testDescription: "removeAll of a tag", failed: ["old", "tagged"], done: [nil]) { cache, _ in
            try cache.setString("tagged", forKey: "k", tags: ["t"])
            try cache.removeAll(tagged: "t")
        },
        Operation(
            testDescription: "removeAll of a tag, power-safe", durability: .powerSafe, failed: ["old", "tagged", nil],
            done: [nil]
        ) { cache, _ in
            try cache.setString("tagged", forKey: "k", tags: ["t"])
            try cache.removeAll(tagged: "t")
        },
        Operation(testDescription: "save", failed: ["old"], done: ["old"]) { cache, _ in
            try cache.flush()
        },
        Operation(testDescription: "save, power-safe", durability: .powerSafe, failed: ["old"], done: ["old"]) {
            cache, _ in
            try cache.flush()
        },
        Operation(
            testDescription: "save as a property list", failed: ["old"], done: ["old"], manifestFormat: .propertyList
        ) { cache, _ in
            try cache.flush()
        },
        Operation(testDescription: "sweep", failed: ["old"], done: ["old"]) { cache, world in
            world.clock.advance(by: .seconds(61))
            cache.settle()
        },
        Operation(testDescription: "copy of a small file", failed: ["old"], done: ["new"]) { cache, _ in
            try cache.copyFile(at: URL(fileURLWithPath: "/files/new"), forKey: "k")
        },
        Operation(testDescription: "copy of a large file", failed: ["old"], done: [large]) { cache, _ in
            try cache.copyFile(at: URL(fileURLWithPath: "/files/large"), forKey: "k")
        },
        Operation(
            testDescription: "copy of a large file, power-safe", durability: .powerSafe, failed: ["old"], done: [large]
        ) { cache, _ in
            try cache.copyFile(at: URL(fileURLWithPath: "/files/large"), forKey: "k")
        },
        Operation(testDescription: "export", failed: ["old"], done: ["old"]) { cache, _ in
            _ = try cache.exportFile(forKey: "k", to: URL(fileURLWithPath: "/files/target"))
        },
        Operation(testDescription: "import", failed: ["old"], done: ["old"]) { cache, _ in
            try cache.importEGOCache(from: URL(fileURLWithPath: "/files"))
        },
        Operation(testDescription: "verify", failed: ["old"], done: ["old"]) { cache, _ in
            try cache.verify()
        },
        Operation(testDescription: "trim", failed: ["old", nil], done: ["old", nil], evicts: true) { cache, _ in
            cache.trim(toCount: 4)
        },
        Operation(testDescription: "close", failed: ["old"], done: ["old"]) { cache, _ in
            try cache.close()
        },
    ]

    static let expiries: [Operation] = [
        Operation(testDescription: "expire", failed: ["old"], done: [nil], waits: true) { cache, _ in
            try cache.expireValue(forKey: "k")
        },
        Operation(testDescription: "expire a kept value", failed: ["old", "kept"], done: [nil], waits: true) {
            cache, _ in
            try cache.setKept("kept", forKey: "k")
            try cache.expireValue(forKey: "k")
        },
        Operation(
            testDescription: "expire a kept value, power-safe", durability: .powerSafe, failed: ["old", "kept", nil],
            done: [nil], waits: true
        ) { cache, _ in
            try cache.setKept("kept", forKey: "k")
            try cache.expireValue(forKey: "k")
        },
        Operation(testDescription: "expireAll of a tag", failed: ["old", "kept"], done: [nil], waits: true) {
            cache, _ in
            try cache.setKept("kept", forKey: "k", tags: ["t"])
            try cache.expireAll(tagged: "t")
        },
        Operation(
            testDescription: "expireAll of a tag, power-safe", durability: .powerSafe, failed: ["old", "kept", nil],
            done: [nil], waits: true
        ) { cache, _ in
            try cache.setKept("kept", forKey: "k", tags: ["t"])
            try cache.expireAll(tagged: "t")
        },
        Operation(testDescription: "expireAll", failed: ["old"], done: [nil], clears: true, waits: true) { cache, _ in
            try cache.namespace("beside").setString("v", forKey: "k")
            try cache.namespace("").expireAll()
        },
    ]

    private func prepared(_ operation: Operation) throws -> (World, DiskCache) {
        var world = World.grouped {
            $0.durability = operation.durability
            $0.manifestFormat = operation.manifestFormat
        }
        var cache = try world.open()
        for number in 0..<8 { try cache.setString("other", forKey: "other \(number)") }
        try cache.setString("gone", forKey: "gone")
        try cache.removeValue(forKey: "gone")
        try cache.close()
        _ = try world.files.openDirectory(path: "/files", creation: .plain)
        var image = world.files.image
        image.add(Array("new".utf8), at: "/files/new")
        image.add(Array(Self.large.utf8), at: "/files/large")
        let list = "<plist><dict><key>new</key><date>2099-01-01T00:00:00Z</date></dict></plist>"
        image.add(Array(list.utf8), at: "/files/EGOCache.plist")
        world.restart(with: image)
        cache = try world.open()
        try cache.setString("before", forKey: "k")
        try cache.setString("old", forKey: "k")
        _ = cache.string(forKey: "other 1")
        cache.settle()
        return (world, cache)
    }

    /// False also where the change is done, and only the loss of the index would undo it.
    private func hasFailed(_ body: () throws -> Void) -> Bool {
        do {
            try body()
            return false
        } catch {
            return (error as? CacheError)?.message.hasPrefix("The change is done") != true
        }
    }

    private func check(_ cache: DiskCache, _ expected: Set<String?>, _ context: Comment, others: Bool = true) {
        // A part of the index that could not be read: there are misses until the files are listed, in the background.
        if cache.store.provisional.distrusted != nil {
            cache.store.reconciler.retry()
            cache.store.recovery.awaitScan()
        }
        let isExpected = expected.contains(cache.string(forKey: "k"))
        #expect(isExpected, context)
        #expect(cache.string(forKey: "gone") == nil, context)
        guard others else { return }
        for number in 0..<8 { #expect(cache.string(forKey: "other \(number)") == "other", context) }
    }

    @Test(
        "in the middle of any operation: the call throws, the old value stays, the next call works",
        arguments: operations + expiries, [false, true])
    func everyCall(operation: Operation, persistent: Bool) throws {
        // On a disk that fails for good, the errors take turns.
        for offset in Sample.few(1, of: Self.errors.indices.prefix(persistent ? 1 : 4)) {
            for number in Sample.calls {
                let error = operation.error(number + offset)
                let (prepared, cache) = try prepared(operation)
                var world = prepared
                let isReached = world.failing(in: number, with: error, persistent: persistent)
                let hasThrown = hasFailed { try operation.run(cache, world) }
                cache.settle()
                world.files.inject(nil)
                let context = Comment(
                    "\(operation.testDescription): call \(number) fails with \(error), \(persistent ? "and all after it" : "once")"
                )
                let clears = operation.clears && !hasThrown
                let isClosed = operation.testDescription == "close"
                if !isClosed {
                    check(
                        cache, hasThrown ? operation.failed : operation.done, context,
                        others: !clears && !operation.evicts)
                    cache.checkInvariants()
                    try cache.setString("next", forKey: "next")
                    #expect(cache.string(forKey: "next") == "next", context)
                }
                // Acknowledged changes and older values survive a kill. On a disk that never recovers, a change that
                // threw may appear after a restart, because undoing it failed too, but then it is complete.
                world.restart()
                let again = try world.open()
                try again.flush()
                let after = hasThrown ? operation.failed.union(persistent ? operation.done : []) : operation.done
                let mayBeGone = persistent && operation.clears
                check(
                    again, mayBeGone ? after.union([nil]) : after, context,
                    others: !clears && !mayBeGone && !operation.evicts)
                if !isClosed { #expect(again.string(forKey: "next") == "next", context) }
                again.checkInvariants(world, settled: true)
                if !isReached.withLock({ $0 }) { break }
            }
        }
    }

    @Test(
        "the same beside another process, which sees at once what the call has done",
        arguments: operations + expiries, [false, true])
    func everyCallBesideAnother(operation: Operation, persistent: Bool) throws {
        for number in Sample.calls {
            let error = operation.error(number + (persistent ? 2 : 0))
            let (world, cache) = try prepared(operation)
            let witness = try world.anotherProcess().open()
            check(witness, ["old"], "before")
            let isReached = world.failing(in: number, with: error, persistent: persistent)
            let hasThrown = hasFailed { try operation.run(cache, world) }
            let context = Comment(
                "\(operation.testDescription): call \(number) fails with \(error), \(persistent ? "and all after it" : "once")"
            )
            // A sync that has failed cannot be undone without a journal.
            let failed = operation.failed.union(persistent ? operation.done : [])
            let values = hasThrown ? failed : operation.done
            let hasOthers = !operation.evicts && (hasThrown || !operation.clears)
            check(witness, values, context, others: hasOthers)
            cache.settle()
            world.files.inject(nil)
            check(witness, values, context, others: hasOthers)
            try witness.setString("next", forKey: "next")
            if operation.testDescription != "close" {
                check(cache, values, context, others: hasOthers)
                #expect(cache.string(forKey: "k") == witness.string(forKey: "k"), context)
                #expect(cache.string(forKey: "next") == "next", context)
                try cache.setString("own", forKey: "own")
                #expect(witness.string(forKey: "own") == "own", context)
            }
            world.files.kill()
            let (value, keys) = (witness.string(forKey: "k"), Set(witness.keys()))
            check(witness, values, context, others: hasOthers)
            // A tombstone that could not be taken back counts once a process is alone.
            let after = persistent && (hasThrown || operation.clears) ? operation.done.union([value]) : [value]
            try witness.close()
            var alone = world.with(world.files.another())
            alone.configuration.sharing = .exclusive
            let again = try alone.open()
            try again.flush()
            check(again, after, context, others: hasOthers && !persistent)
            #expect(keys.isSuperset(of: again.keys()), context)
            again.checkInvariants(alone, settled: true)
            if !isReached.withLock({ $0 }) { break }
        }
    }

    @Test(
        "the same while a lost index is rebuilt", arguments: operations.prefix(5) + expiries.prefix(5),
        [false, true])
    func everyCallWhileRebuilding(operation: Operation, persistent: Bool) throws {
        for number in Sample.calls {
            // The errors take turns.
            let error = operation.error(number + (persistent ? 1 : 0))
            var world = try prepared(operation).0
            world.loseIndex()
            var isReached = Lock(false)
            var hasThrown = false
            let original = world
            func act() throws -> DiskCache {
                let cache = try original.open()
                isReached = original.failing(in: number, with: error, persistent: persistent)
                hasThrown = hasFailed { try operation.run(cache, original) }
                return cache
            }
            // Without room for a tombstone a removal waits for the scan.
            let isHeld = error != .noSpace && !operation.waits
            let cache = try !isHeld ? act() : world.files.holdingOtherReaders(act)
            cache.settle()
            world.files.inject(nil)
            let context = Comment("\(operation.testDescription): call \(number) fails with \(error)")
            try cache.flush()
            check(cache, hasThrown ? operation.failed : operation.done, context)
            cache.checkInvariants(world, settled: true)
            // On a disk that never recovers, undoing a change that threw may have failed too; it is then complete.
            world.restart()
            world.loseIndex()
            let again = try world.open()
            var after = hasThrown ? operation.failed.union(persistent ? operation.done : []) : operation.done
            // The same holds for a torn life slot that could not be restored: with the index lost again, it counts
            // as expired.
            if hasThrown, persistent, operation.testDescription.hasSuffix("life") { after.insert(nil) }
            try again.flush()
            check(again, after, context)
            again.checkInvariants(world, settled: true)
            if !isReached.withLock({ $0 }) { break }
        }
    }

    @Test("a failed read is a miss, counted and reported, and the entry stays", arguments: errors)
    func read(error: Errno) throws {
        for number in 1...2 {
            let log = EventLog()
            let world = World.grouped {
                $0.inlineThreshold = 0
                $0.onEvent = log.note
            }
            let cache = try world.open()
            try cache.setString("v", forKey: "k")
            world.files.inject { call, _ in call == number ? .fail(error) : nil }
            #expect(cache.string(forKey: "k") == nil)
            #expect(cache.statistics.misses == 1 && cache.statistics.hits == 0 && cache.statistics.failures == 1)
            let event = log.events(of: cache).last
            #expect(event?.kind == .failed && event?.keys == ["k"] && event?.error?.errno == error.rawValue)
            #expect(event?.error?.path?.hasSuffix("entries/0000000000000001") == true)
            #expect(cache.string(forKey: "k") == "v")
        }
    }

    @Test("opening fails clearly or opens; the next opening has everything", arguments: errors, [true, false])
    func open(error: Errno, clean: Bool) throws {
        for number in Sample.calls {
            var world = World.grouped()
            var cache = try world.open()
            for number in 0..<8 { try cache.setString("v", forKey: "\(number)") }
            try cache.flush()
            try cache.setString("w", forKey: "1")
            try cache.removeValue(forKey: "7")
            if clean { try cache.close() }
            world.restart()
            let isReached = world.failing(in: number, with: error)
            do {
                let opened = try world.open()
                opened.settle()
                world.files.inject(nil)
                try opened.flush()
                try expectAll(opened, Comment("call \(number) of opening fails with \(error)"))
            } catch let failure as CacheError {
                #expect(failure.errno == error.rawValue && failure.path?.isEmpty == false && !failure.message.isEmpty)
            }
            world.restart()
            cache = try world.open()
            try cache.flush()
            try expectAll(cache, Comment("after call \(number) of opening failed with \(error)"))
            cache.checkInvariants(world, settled: true)
            if !isReached.withLock({ $0 }) { break }
        }
    }

    private func expectAll(_ cache: DiskCache, _ context: Comment) throws {
        for number in 0..<7 { #expect(cache.string(forKey: "\(number)") == (number == 1 ? "w" : "v"), context) }
        #expect(cache.string(forKey: "7") == nil && cache.count == 7, context)
    }

    @Test("on a full disk a set throws noSpace, and the cache can still be read and emptied")
    func fullDisk() throws {
        let world = World.grouped {
            $0.inlineThreshold = 0
        }
        let cache = try world.open()
        for number in 0..<5 { try cache.setString("v", forKey: "\(number)") }
        world.files.inject { _, operation in
            switch operation {
            case .write, .create, .makeDirectory: .fail(.noSpace)
            default: nil
            }
        }
        let error = #expect(throws: CacheError.self) { try cache.setString("w", forKey: "1") }
        #expect(error?.code == .noSpace && error?.path != nil && error?.errno == Errno.noSpace.rawValue)
        #expect(cache.string(forKey: "1") == "v")
        for number in 0..<5 { #expect(try cache.removeValue(forKey: "\(number)")) }
        #expect(world.entryFiles == [] && cache.count == 0)
        world.files.inject(nil)
        try cache.flush()
        cache.checkInvariants(world, settled: true)
    }

    @Test("the space of replaced files is used before a set fails")
    func roomOfReplacedFiles() throws {
        let world = World.grouped()
        let cache = try world.open()
        try cache.setString("1", forKey: "k")
        try cache.setString("2", forKey: "k")
        #expect(world.fileCount == 2)
        let files = world.files
        let isFull = Lock(true)
        files.inject { _, operation in
            if case .remove = operation { isFull.withLock { $0 = false } }
            if case .create = operation, isFull.withLock({ $0 }) { return .fail(.noSpace) }
            return nil
        }
        try cache.setString("3", forKey: "k")
        #expect(cache.string(forKey: "k") == "3")
    }

    @Test(
        "an undeletable file does not keep its value, also if the index is lost, and is deleted later",
        arguments: [DiskCache.Sharing.exclusive, .processes], [false, true])
    func undeletable(sharing: DiskCache.Sharing, losesIndex: Bool) throws {
        var world = World.grouped {
            $0.inlineThreshold = 0
            $0.sharing = sharing
        }
        var cache = try world.open()
        try cache.setString("v", forKey: "k")
        world.files.inject { _, operation in if case .remove = operation { .fail(.notPermitted) } else { nil } }
        #expect(try cache.removeValue(forKey: "k"))
        #expect(cache.string(forKey: "k") == nil)
        if losesIndex { world.loseIndex() }
        world.restart()
        cache = try world.open()
        #expect(cache.string(forKey: "k") == nil)
        try cache.flush()
        #expect(world.entryFiles == [])
        cache.checkInvariants(world, settled: true)
    }

    @Test(
        "a removal throws where nothing keeps an undeletable file dead",
        arguments: [DiskCache.Sharing.exclusive, .processes])
    func uncoverable(sharing: DiskCache.Sharing) throws {
        var world = World.grouped {
            $0.inlineThreshold = 0
            $0.sharing = sharing
        }
        let cache = try world.open()
        try cache.setString("v", forKey: "k")
        world.files.inject { _, operation in
            switch operation {
            case .remove, .create: .fail(.notPermitted)
            default: nil
            }
        }
        let error = #expect(throws: CacheError.self) { try cache.removeValue(forKey: "k") }
        #expect(error?.message.hasPrefix("The change is done, but the loss of the index would undo it.") == true)
        #expect(cache.string(forKey: "k") == nil)
        world.restart()
        #expect(try world.open().string(forKey: "k") == nil)
    }

    /// Makes the n-th call of a kind fail, once.
    private func fail(_ kind: MemoryFileSystem.Operation, _ number: Int, with error: Errno, in world: World) {
        let seen = Lock(0)
        world.files.inject { _, operation in
            guard operation == kind else { return nil }
            let count = seen.withLock { count in
                count += 1
                return count
            }
            return count == number ? .fail(error) : nil
        }
    }

    @Test("a removal whose record cannot be written is not undone by a close whose manifest cannot be written")
    func closedWithoutManifest() throws {
        var world = World.grouped {
            $0.inlineThreshold = 0
        }
        var cache = try world.open()
        for number in 0..<5 { try cache.setString("v", forKey: "\(number)") }
        try cache.close()
        world.restart()
        cache = try world.open()
        try cache.setString("v", forKey: "new")
        world.files.inject { _, operation in operation == .write ? .fail(.noSpace) : nil }
        #expect(try cache.removeValue(forKey: "1"))
        world.files.inject { _, operation in operation == .create ? .fail(.noSpace) : nil }
        #expect(code { try cache.close() } == .noSpace)
        world.restart()
        cache = try world.open()
        #expect(!cache.hasValue(forKey: "1"))
        try cache.flush()
        #expect(cache.count == 5)
        cache.checkInvariants(world, settled: true)
    }

    @Test(
        "a power-safe set whose sync fails is undone: it is not counted, and the old value is there",
        arguments: 1...3)
    func unsyncedSet(number: Int) throws {
        var world = World.grouped {
            $0.inlineThreshold = 0
            $0.durability = .powerSafe
        }
        var cache = try world.open()
        try cache.setString("old", forKey: "k")
        cache.settle()
        fail(.sync, number, with: .io, in: world)
        #expect(code { try cache.setString("new", forKey: "k") } == .io)
        world.files.inject(nil)
        cache.settle()
        #expect(cache.statistics.stores == 1 && cache.string(forKey: "k") == "old")
        try cache.setString("newer", forKey: "k")
        #expect(cache.statistics.stores == 2)
        world.restart()
        cache = try world.open()
        try cache.flush()
        #expect(cache.string(forKey: "k") == "newer")
        cache.checkInvariants(world, settled: true)
    }

    @Test("a power-safe clear or removal whose sync fails throws, but takes effect", arguments: 1...6)
    func unsyncedRemoval(number: Int) throws {
        for clears in [true, false] {
            var world = World.grouped {
                $0.inlineThreshold = 0
                $0.durability = .powerSafe
            }
            var cache = try world.open()
            for number in 0..<5 { try cache.setString("v", forKey: "\(number)") }
            cache.settle()
            fail(.sync, number, with: .io, in: world)
            let failed = code { if clears { try cache.removeAll() } else { try cache.removeValue(forKey: "1") } } != nil
            world.files.inject(nil)
            #expect(failed || number > 1)
            #expect(cache.count == (clears ? 0 : 4) && !cache.hasValue(forKey: "1"))
            try cache.setString("w", forKey: "new")
            try cache.close()
            world.restart()
            cache = try world.open()
            try cache.flush()
            #expect(cache.string(forKey: "new") == "w" && cache.count == (clears ? 1 : 5))
            cache.checkInvariants(world, settled: true)
        }
    }

    @Test("a group sync never reports changes of a failed sync as durable")
    func groupSync() throws {
        let files = MemoryFileSystem()
        let directory = OwnedDescriptor(try files.openDirectory(path: "/d", creation: .plain))
        let group = GroupSync(directory, of: files)
        let tickets = (0..<3).map { _ in group.note() }
        files.inject { call, _ in call == 1 ? .fail(.io) : nil }
        func sync(_ ticket: Int) throws(Errno) { try group.sync(through: ticket, since: ticket) }
        #expect(throws: Errno.io) { try sync(tickets[1]) }
        let later = group.note()
        try sync(later)
        for ticket in tickets { #expect(throws: Errno.io) { try sync(ticket) } }
        // One that had begun before.
        #expect(throws: Errno.io) { try group.sync(through: later, since: tickets[2]) }
        // However many fail.
        files.inject { _, _ in .fail(.io) }
        let many = (0..<100).map { _ in group.note() }
        for ticket in many { #expect(throws: Errno.io) { try sync(ticket) } }
        files.inject(nil)
        try sync(group.note())
        for ticket in tickets + many { #expect(throws: Errno.io) { try sync(ticket) } }
    }

    @Test("no failure leaves a descriptor open")
    func descriptors() throws {
        let world = World.grouped()
        try {
            let cache = try world.open()
            for number in 1...20 {
                world.files.inject { call, _ in call == number ? .fail(.io) : nil }
                try? cache.setString("v", forKey: "k")
                _ = cache.string(forKey: "k")
                try? cache.removeAll()
                try? cache.flush()
            }
            world.files.inject(nil)
            try cache.close()
        }()
        #expect(world.files.openCount == 0)
    }
}
