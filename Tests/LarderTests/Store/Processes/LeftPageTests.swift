import Foundation
import LarderFiles
import LarderTestSupport
import Testing

@testable import Larder
@testable import LarderTesting

@Suite("What processes leave that die in a change")
struct LeftPageTests {
    typealias Content = SharedCrashWorld.Content

    private static let expected: Content = ["a": "one 1 h", "b": "two 1 h"]

    /// Two processes are dead. The last change of the second one was written, and not published.
    private func unpublished(
        inMemory: Bool, _ configure: (inout DiskCache.Configuration) -> Void = { _ in }
    ) throws -> World {
        var world = World.shared(configure)
        if inMemory { world.files.tamper { $0.memory = "/memory" } }
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        try one.store("a", "one")
        try two.store("b", "two")
        let follower = two.store.disk.others.object
        let (page, lane) = (follower.page, follower.lane)
        let number = page.journalCount(of: lane)
        let part = try #require(page.journal(number, of: lane))
        try two.store("z", "unpublished")
        let written = JournalPart(
            generation: part.generation, length: try #require(page.journal(number, of: lane)).length)
        page.shorten(part, from: written.length)
        world.files.kill()
        other.files.kill()
        world.restart(with: world.files.restarted().image)
        return world
    }

    @Test(
        "is no value for the next one: shared, alone or only reading; from files or segments",
        arguments: [false, true], [0, 1000])
    func next(inMemory: Bool, inlineThreshold: Int) throws {
        for sharing in [DiskCache.Sharing.processes, .exclusive] {
            var world = try unpublished(inMemory: inMemory) { $0.inlineThreshold = inlineThreshold }
            for _ in 0..<2 {
                let reader = try world.open(through: world.files.another().refusingChanges(with: .readOnly))
                #expect(reader.content == Self.expected)
                try reader.close()
            }
            world.configuration.sharing = sharing
            let cache = try world.with(world.files.another()).open()
            #expect(cache.content == Self.expected, "\(sharing)")
            try cache.flush()
            #expect(cache.content == Self.expected, "\(sharing)")
            #expect(try cache.verify().isClean)
        }
    }

    @Test(
        "nor is what the next one stores lost, if one of the calls of its opening fails",
        arguments: [Errno.io, .tooManyOpenFiles, .accessDenied], [false, true])
    func failure(error: Errno, inMemory: Bool) throws {
        var openings = 0
        for call in 1... {
            var world = try unpublished(inMemory: inMemory)
            world.configuration.sharing = .exclusive
            let isReached = world.failing(in: call, with: error)
            guard let cache = try? world.open() else {
                world.files.kill()
                #expect(try world.with(world.files.another()).open().content == Self.expected, "\(call), then again")
                continue
            }
            if !isReached.withLock({ $0 }) { break }
            world.files.inject(nil)
            openings += 1
            var content = cache.content
            try cache.store("c", "three")
            content["c"] = "three 1 h"
            cache.settle()
            world.files.kill()
            for sharing in [DiskCache.Sharing.exclusive, .processes] {
                var next = world
                next.restart(with: world.files.image)
                next.configuration.sharing = sharing
                #expect(try next.open().content == content, "\(call), \(sharing)")
            }
        }
        #expect(openings > 0)
    }

    @Test("is read by one that has the directory alone on a disk that has become read-only")
    func readOnlyDisk() throws {
        var world = World.shared()
        let cache = try world.open()
        try cache.store("a", "one")
        try cache.close()
        world.restart()
        world.configuration.sharing = .exclusive
        world.files.inject { _, operation in
            let changes: Set<MemoryFileSystem.Operation> = [
                .create, .write, .truncate, .allocate, .makeDirectory, .rename, .remove,
            ]
            return changes.contains(operation) ? .fail(.readOnly) : nil
        }
        #expect(try world.open().content == ["a": "one 1 h"])
    }

    @Test("costs no value that a damaged page says had not been published", arguments: [false, true])
    func lowLength(isShared: Bool) throws {
        var world = World.shared()
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        for key in ["a", "c"] { try one.store(key, "one") }
        try two.store("b", "two")
        world.files.kill()
        let follower = two.store.disk.others.object
        follower.membership.buryTheDead()
        try two.store("b", "two")
        let lane = try #require(follower.page.used.bits.first { $0 != follower.lane })
        let part = try #require(follower.page.journal(1, of: lane))
        follower.page.shorten(JournalPart(generation: part.generation, length: part.length / 2), from: part.length)
        other.files.kill()
        world.restart(with: world.files.restarted().image)
        world.configuration.sharing = isShared ? .processes : .exclusive
        #expect(try world.open().content == ["a": "one 1 h", "b": "two 1 h", "c": "one 1 h"])
    }
}
