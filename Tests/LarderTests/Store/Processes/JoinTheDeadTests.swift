import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("The first opening after all processes of a directory were killed")
struct JoinTheDeadTests {
    private let world = World.shared {
        $0.sweepInterval = nil
        $0.entriesPerGroup = 4
    }

    /// Two processes with a saved index of many groups, which then change some values and are killed.
    private func kill() throws {
        let (first, second) = (world.anotherProcess(), world.anotherProcess())
        let (one, two) = (try first.open(), try second.open())
        for number in 0..<100 { try one.store("\(number)", "saved") }
        try one.flush()
        for number in 0..<10 { try two.store("\(number)", "two") }
        for number in 5..<15 { try one.store("\(number)", "one") }
        #expect(try two.removeStored("14") && one.removeStored("20"))
        #expect(try two.expireValue(forKey: "21"))
        first.files.kill()
        second.files.kill()
    }

    /// Where the files have not been read, a value may be missing, but never be another one.
    private func check(_ cache: DiskCache, mayMiss: Bool = false) {
        for number in 0..<100 {
            let expected: String? =
                switch number {
                case 14, 20, 21: nil
                case 5..<15: "one 1 h"
                case 0..<5: "two 1 h"
                default: "saved 1 h"
                }
            let found = cache.stored("\(number)")
            #expect(found == expected || mayMiss && found == nil, "\(number)")
        }
    }

    @Test("reads no file of an entry, and answers what their calls have stored")
    func answers() throws {
        try kill()
        let gate = GatedFileSystem(world.files.another())
        let opened = Lock([String]())
        _ = gate.hold { operation, name, _ in
            if operation == .open { opened.withLock { $0.append(name) } }
            return false
        }
        let cache = try world.open(through: gate)
        #expect(opened.withLock(\.self).allSatisfy { UInt64($0, radix: 16) == nil })
        check(cache)
        try cache.flush()
        check(cache)
        #expect(cache.count == 97 && cache.statistics.losses == 0 && cache.statistics.adoptions == 0)
        cache.checkInvariants(world, settled: true)
    }

    @Test("lets others join at once, and deletes what the dead have left")
    func joined() throws {
        try kill()
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        for cache in [one, two] { check(cache) }
        #expect(world.fileCount > 97)
        try two.flush()
        for cache in [one, two] { check(cache) }
        #expect(world.fileCount == 97)
    }

    @Test(
        "deletes the file of a set that was killed in any of its calls, also after another killed opening",
        arguments: [0, 1_000], [nil] + (1...45).map { $0 })
    func left(inline: Int, again: Int?) throws {
        for call in 1...30 {
            var world = World.shared {
                $0.inlineThreshold = inline
                $0.entriesPerGroup = 4
            }
            let first = try world.open()
            for number in 0..<10 { try first.store("\(number)", "saved") }
            try first.flush()
            let isReached = world.killing(in: call)
            try? first.store("0", "killed")
            if !isReached.withLock({ $0 }) { break }
            world.restart()
            if let again {
                _ = world.killing(in: again)
                _ = try? world.open()
                world.restart()
            }
            let cache = try world.open()
            try cache.flush()
            #expect(cache.count == 10, "\(call)")
            cache.checkInvariants(world, settled: true)
        }
    }

    @Test("may be killed, too, again and again, and lose the index at last")
    func again() throws {
        try kill()
        for _ in 0..<5 {
            let process = world.anotherProcess()
            let cache = try process.open()
            check(cache)
            try cache.store("0", "two")
            process.files.kill()
        }
        check(try world.open())
        var later = world
        later.restart()
        later.loseIndex()
        let last = try later.open()
        check(last, mayMiss: true)
        try last.flush()
        check(last)
    }

    @Test(
        "notices a journal that is shorter than the page says, or missing, and loses nothing", arguments: [false, true])
    func damaged(isDeleted: Bool) throws {
        try kill()
        let name = world.files.image.names(at: "/cache").last { $0.hasPrefix("journal-") }
        let path = "/cache/" + (try #require(name))
        world.files.tamper { image in
            if isDeleted {
                image.remove(at: path)
            } else if let content = image.content(at: path) {
                image.setContent(Array(content.dropLast(40)), at: path)
            }
        }
        let cache = try world.open()
        check(cache, mayMiss: true)
        #expect(try !cache.removeStored("20"))
        try cache.flush()
        check(cache)
        #expect(cache.statistics.adoptions > 0 || !isDeleted)
    }
}
