import Foundation
import LarderFiles
import Testing

@testable import Larder
@testable import LarderTesting

/// On a disk that copies blocks on write, a store to a mapped block could end the process.
@Suite("A page in the shared memory of the system")
struct PageInMemoryTests {
    private static let memory = "/memory"

    private func world() -> World {
        let world = World.shared()
        world.files.tamper { $0.memory = Self.memory }
        return world
    }

    private func names(_ world: World) -> [String] { world.files.image.names(at: Self.memory) }

    @Test("is shared by the processes of a directory, and goes with the last of them")
    func shared() throws {
        let world = world()
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        #expect(names(world).count == 1)
        #expect(world.files.image.content(at: "/cache/shared")?.starts(with: PeerPage.mark) == true)
        try one.store("a", "one")
        try two.store("b", "two")
        try two.store("a", "two")
        #expect(one.content == ["a": "two 1 h", "b": "two 1 h"])
        try one.close()
        #expect(names(world).count == 1)
        let three = try world.anotherProcess().open()
        #expect(three.content == ["a": "two 1 h", "b": "two 1 h"])
        try two.close()
        try three.close()
        #expect(names(world) == [])
        #expect(try world.anotherProcess().open().content == ["a": "two 1 h", "b": "two 1 h"])
    }

    @Test("of killed processes says how long their journals were", arguments: [true, false])
    func killed(isShared: Bool) throws {
        var world = world()
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        try one.store("a", "one")
        try two.store("a", "two")
        try two.removeStored("a").check()
        try two.store("b", "two")
        world.files.kill()
        other.files.kill()
        var image = world.files.restarted().image
        let journal = try #require(image.names(at: "/cache").last { $0.hasPrefix("journal-") })
        let path = "/cache/" + journal
        let content = try #require(image.content(at: path))
        let end = try #require(content.lastIndex(of: UInt8(ascii: "\n")))
        if isShared { image.setContent(Array(content[..<end]), at: path) }
        world.restart(with: image)
        if !isShared { world.configuration.sharing = .exclusive }
        let cache = try world.open()
        #expect(cache.stored("b") == "two 1 h")
        try cache.close()
        #expect(names(world) == [])
    }

    @Test("for which there is no room names the shared memory, and keeps what the dead have left")
    func full() throws {
        let world = world()
        let one = try world.open()
        try one.store("a", "old")
        try one.flush()
        try one.store("a", "new")
        world.files.kill()
        var image = world.files.restarted().image
        let path = "/cache/" + (try #require(image.names(at: "/cache").last { $0.hasPrefix("journal-") }))
        let content = try #require(image.content(at: path))
        let end = try #require(content.lastIndex(of: UInt8(ascii: "\n")))
        image.setContent(Array(content[..<end]), at: path)
        var next = self.world()
        next.restart(with: image)
        let refused = next.anotherProcess()
        refused.files.inject { _, operation in operation == .allocate ? .fail(.noSpace) : nil }
        let error = try #require(throws: CacheError.self) { _ = try refused.open() }
        #expect(error.code == .noSpace && error.message.contains("/dev/shm"))
        #expect(names(next).count == 1)
        #expect(try next.anotherProcess().open().stored("a") == "new 1 h")
    }

    @Test("is not looked for in other shared memory")
    func otherMemory() throws {
        let world = world()
        // An earlier session had a page there.
        world.files.tamper { $0.memory = "/elsewhere" }
        let early = world.anotherProcess()
        try early.open().store("a", "early")
        early.files.kill()
        world.files.tamper { $0.memory = Self.memory }
        let one = try world.open()
        #expect(one.stored("a") == "early 1 h")
        for memory in ["/elsewhere", "/nowhere"] {
            world.files.tamper { $0.memory = memory }
            #expect(code { _ = try world.anotherProcess().open() } == .directoryInUse)
        }
        world.files.tamper { $0.memory = Self.memory }
        let two = try world.anotherProcess().open()
        try two.store("a", "two")
        #expect(one.stored("a") == "two 1 h")
    }

    @Test("of an original is not used for a copy of the directory, nor that of another boot")
    func copied() throws {
        var world = world()
        let cache = try world.open()
        try cache.store("a", "one")
        world.files.kill()
        var image = world.files.restarted().image
        image.boot += 1
        world.restart(with: image)
        let again = try world.open()
        #expect(again.content == ["a": "one 1 h"])
        #expect(try world.anotherProcess().open().content == ["a": "one 1 h"])
    }

    @Test("that a process of an earlier Larder has in the directory keeps this one out")
    func earlier() throws {
        let world = World.shared()
        let one = try world.open()
        try one.store("a", "one")
        world.files.tamper { $0.memory = Self.memory }
        #expect(code { _ = try world.anotherProcess().open() } == .directoryInUse)
        try one.close()
        let two = try world.anotherProcess().open()
        #expect(two.content == ["a": "one 1 h"])
        #expect(world.files.image.content(at: "/cache/shared")?.starts(with: PeerPage.mark) == true)
    }
}

extension Bool {
    fileprivate func check() { #expect(self) }
}
