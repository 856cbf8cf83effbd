import Foundation
import LarderFiles
import Testing

@testable import Larder
@testable import LarderTesting

/// Nothing is deleted on silence: a journal that is shorter than it was published, or gone, is damage.
@Suite("A journal that is cut, replaced or deleted")
struct LostJournalTests {
    private func journals(_ image: MemoryImage) -> [String] {
        image.names(at: "/cache").filter { $0.hasPrefix("journal-") }
    }

    /// A killed process had replaced three of ten values since the last save.
    private func killed() throws -> (image: MemoryImage, expected: [String: String]) {
        let world = World.shared()
        let cache = try world.open()
        for number in 0..<5 { try cache.store("key \(number)", "old") }
        try cache.flush()
        for number in 0..<3 { try cache.store("key \(number)", "new") }
        for number in 5..<10 { try cache.store("key \(number)", "new") }
        let expected = cache.values
        world.files.kill()
        return (world.files.restarted().image, expected)
    }

    /// The image with the last journal cut at each of its lines.
    private func cuts(of image: MemoryImage) throws -> [MemoryImage] {
        let path = "/cache/" + (try #require(journals(image).last))
        let content = try #require(image.content(at: path))
        return content.indices.filter { content[$0] == UInt8(ascii: "\n") }.map { end in
            var cut = image
            cut.setContent(Array(content[..<end]), at: path)
            return cut
        }
    }

    @Test("loses no value of a killed process", arguments: [true, false])
    func cut(hasPage: Bool) throws {
        let (image, expected) = try killed()
        let cuts = try cuts(of: image)
        #expect(cuts.count >= 8)
        for (position, image) in cuts.enumerated() {
            var world = World.shared()
            var image = image
            if !hasPage { image.boot += 1 }
            world.restart(with: image)
            var cache = try world.open()
            #expect(cache.values == expected, "cut \(position)")
            try cache.flush()
            #expect(cache.values == expected, "cut \(position)")
            try cache.close()
            cache = try world.anotherProcess().open()
            #expect(cache.values == expected, "cut \(position)")
        }
    }

    @Test("loses no value to a process that wants the directory for itself")
    func cutBeforeExclusive() throws {
        let (image, expected) = try killed()
        for (position, image) in try cuts(of: image).enumerated() {
            var world = World.exclusive()
            world.restart(with: image)
            let cache = try world.open()
            #expect(cache.values == expected, "cut \(position)")
            try cache.flush()
            #expect(cache.values == expected, "cut \(position)")
        }
    }

    @Test("loses no value of two killed processes without their page", arguments: [true, false])
    func deleted(isCopied: Bool) throws {
        var world = World.shared()
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        for number in 0..<50 { try one.store("one \(number)", "1") }
        for number in 0..<50 { try two.store("two \(number)", "2") }
        let expected = one.values
        world.files.kill()
        other.files.kill()
        var image = world.files.restarted().image
        image.remove(at: "/cache/" + (try #require(journals(image).last)))
        if isCopied { image.remove(at: "/cache/shared") } else { image.boot += 1 }
        world.restart(with: image)
        let cache = try world.open()
        #expect(cache.values == expected)
        try cache.flush()
        #expect(cache.values == expected)
    }

    @Test("of a living process keeps newcomers out until somebody has saved", arguments: [true, false])
    func ofTheLiving(isDeleted: Bool) throws {
        let world = World.shared()
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        try one.store("a", "old")
        try one.flush()
        try one.store("a", "new")
        try two.store("b", "two")
        try two.removeStored("b").check(true)
        #expect(one.values == ["a": "new 1 h"])
        let names = journals(world.files.image)
        world.files.tamper { image in
            for name in names {
                guard let content = image.content(at: "/cache/" + name) else { continue }
                let end = content.firstIndex(of: UInt8(ascii: "\n")) ?? content.count
                image.remove(at: "/cache/" + name)
                if !isDeleted { image.add(Array(content[..<end]), at: "/cache/" + name) }
            }
        }
        #expect(code { _ = try world.anotherProcess().open() } == .directoryInUse)
        // They have been asked to save.
        #expect(one.values == ["a": "new 1 h"])
        try one.flush()
        let three = try world.anotherProcess().open()
        #expect(three.values == ["a": "new 1 h"])
        try three.store("c", "three")
        try three.removeStored("a").check(true)
        for cache in [one, two, three] { #expect(cache.values == ["c": "three 1 h"]) }
        for cache in [one, two, three] { try cache.close() }
        #expect(try world.anotherProcess().open().values == ["c": "three 1 h"])
    }

    @Test("with the whole index leaves one history")
    func wholeIndex() throws {
        let world = World.shared()
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        try one.store("a", "one")
        try two.store("b", "two")
        try two.store("a", "two")
        #expect(one.stored("a") == "two 1 h")
        world.files.tamper { image in
            for name in image.names(at: "/cache") where !["entries", "shared", "trash"].contains(name) {
                image.remove(at: "/cache/" + name)
            }
        }
        #expect(code { _ = try world.anotherProcess().open() } == .directoryInUse)
        try one.removeStored("b").check(true)
        #expect(two.values == ["a": "two 1 h"])
        try one.close()
        try two.close()
        #expect(try world.anotherProcess().open().values == ["a": "two 1 h"])
    }

    @Test("is replaced by the save of its owner, even if only that is left", arguments: [true, false])
    func closing(isShared: Bool) throws {
        let world = isShared ? World.shared() : World.exclusive()
        let cache = try world.open()
        for number in 0..<2000 { try cache.store("\(number)", "old") }
        try cache.flush()
        try cache.store("new", "new")
        try cache.removeStored("7").check(true)
        let expected = cache.values
        let name = try #require(journals(world.files.image).last)
        world.files.tamper { $0.remove(at: "/cache/" + name) }
        try cache.close()
        let again = try world.with(world.files.another()).open()
        #expect(!again.store.provisional.isSet)
        #expect(again.values == expected)
    }

    /// Flips a bit in the last line of the only journal that mentions a key.
    private func flip(_ key: String, in files: MemoryFileSystem) throws {
        let image = files.image
        for name in journals(image) {
            var content = try #require(image.content(at: "/cache/" + name))
            guard let range = Data(content).range(of: Data(#""k":"\#(key)""#.utf8)) else { continue }
            content[range.lowerBound + 5] ^= 1
            let damaged = content
            files.tamper { $0.setContent(damaged, at: "/cache/" + name) }
        }
    }

    @Test("with an unread record that is damaged asks its living writer for a save")
    func flipped() throws {
        let world = World.shared()
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        try two.store("own", "two")
        #expect(one.stored("own") == "two 1 h")
        try one.store("abc", "one")
        try flip("abc", in: world.files)
        #expect(two.stored("own") == nil)
        #expect(code { try two.store("x", "y") } == .io)
        // A call of the other process finds the demand.
        #expect(one.values == ["own": "two 1 h", "abc": "one 1 h"])
        try one.flush()
        _ = two.stored("own")
        try two.flush()
        #expect(two.values == ["own": "two 1 h", "abc": "one 1 h"])
        try two.store("x", "y")
        #expect(one.stored("x") == "y 1 h")
    }

    @Test("with an unread record that is damaged is left to the files by the last survivor")
    func flippedByTheDead() throws {
        let world = World.shared()
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        try one.store("own", "old")
        try one.store("gone", "old")
        #expect(two.values == ["own": "old 1 h", "gone": "old 1 h"])
        try two.store("own", "new")
        try two.removeStored("gone").check(true)
        try two.store("abc", "two")
        other.files.kill()
        try flip("own", in: world.files)
        _ = one.stored("own")
        try one.flush()
        let expected = ["own": "new 1 h", "abc": "two 1 h"]
        #expect(one.values == expected)
        try one.store("x", "y")
        try one.flush()
        let three = try world.anotherProcess().open()
        #expect(three.values == expected.merging(["x": "y 1 h"]) { $1 })
        try one.close()
        try three.close()
    }

    @Test("with an unread record of the dead is read once, not with every later commit")
    func skippedOnce() throws {
        let world = World.shared()
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        try one.store("own", "old")
        try two.store("abc", "two")
        other.files.kill()
        try flip("abc", in: world.files)
        let others = one.store.disk.others.object
        #expect(!others.follow())
        #expect(others.skipUnread())
        // Another thread commits, and has not noted that yet.
        others.page.nextEpoch()
        #expect(others.follow())
    }

    @Test("with an unread record of the dead and a damaged count of journals does not hold the last survivor in a loop")
    func damagedCount() throws {
        let world = World.shared()
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        try two.store("own", "two")
        #expect(one.stored("own") == "two 1 h")
        try two.store("abc", "two")
        let lane = two.store.disk.others.object.lane
        let page = one.store.disk.others.object.page
        let part = try #require(page.journal(page.journalCount(of: lane), of: lane))
        other.files.kill()
        try flip("abc", in: world.files)
        for _ in 0..<1_000 { page.announce(part, of: lane) }
        let counts = (0..<PeerPage.wordCount).filter { page.words.load($0) == page.journalCount(of: lane) }
        page.words.store(1 << 60, at: try #require(counts.last))
        #expect(page.journalCount(of: lane) == 1 << 60)
        page.nextEpoch()
        _ = one.stored("own")
        try one.flush()
        #expect(one.values == ["own": "two 1 h", "abc": "two 1 h"])
        try one.close()
    }

    @Test("with an unread record of the dead does not keep the last survivor from closing")
    func closingBehindTheDead() throws {
        let world = World.shared()
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        try one.store("own", "old")
        try two.store("abc", "two")
        other.files.kill()
        try flip("abc", in: world.files)
        try one.close()
        #expect(try world.anotherProcess().open().values == ["own": "old 1 h", "abc": "two 1 h"])
    }

    @Test("with an unread record of the dead blocks two survivors no longer than a save takes")
    func twoSurvivors() throws {
        let world = World.shared()
        let other = world.anotherProcess()
        let (one, two, dead) = (try world.open(), try world.anotherProcess().open(), try other.open())
        try one.store("own", "old")
        #expect(two.stored("own") == "old 1 h")
        try dead.store("abc", "dead")
        other.files.kill()
        try flip("abc", in: world.files)
        withKnownIssue("The ledger, rule C: nobody of them can save.") {
            for _ in 0..<3 {
                _ = one.stored("own")
                _ = two.stored("own")
                try? one.flush()
                try? two.flush()
            }
            #expect(one.values == ["own": "old 1 h", "abc": "dead 1 h"])
            #expect(two.values == ["own": "old 1 h", "abc": "dead 1 h"])
        }
    }

    @Test("leaves its owner and the others what they knew", arguments: [true, false])
    func deletedUnderTheLiving(isRead: Bool) throws {
        let world = World.shared()
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        try one.store("a", "one")
        try two.store("b", "two")
        if isRead { #expect(one.stored("b") == "two 1 h") }
        #expect(two.stored("a") == "one 1 h")
        for name in journals(world.files.image) { world.files.tamper { $0.remove(at: "/cache/" + name) } }
        if isRead { try one.store("c", "one") } else { #expect(one.stored("a") == nil) }
        try two.store("d", "two")
        try two.flush()
        try one.store("c", "one")
        let expected = ["a": "one 1 h", "b": "two 1 h", "c": "one 1 h", "d": "two 1 h"]
        #expect(one.values == expected)
        #expect(two.values == expected)
        try one.close()
        try two.close()
        #expect(try world.anotherProcess().open().values == expected)
    }

    @Test("that each of two living processes has still to read is met by the one that has read more")
    func deletedUnderBoth() throws {
        let world = World.shared()
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        try one.store("a", "one")
        try two.store("b", "two")
        for name in journals(world.files.image) { world.files.tamper { $0.remove(at: "/cache/" + name) } }
        _ = one.stored("b")
        _ = two.stored("a")
        try two.flush()
        #expect(one.stored("a") == "one 1 h" || one.stored("a") == nil)
        try one.flush()
        #expect(one.values == ["a": "one 1 h", "b": "two 1 h"])
        #expect(two.values == ["a": "one 1 h", "b": "two 1 h"])
    }

    @Test("is missed by later openings, too, until a save has replaced it", arguments: [0, 1, 2], [true, false])
    func carried(openings: Int, isKilled: Bool) throws {
        let (image, expected) = try killed()
        var world = World.shared()
        world.restart(with: image)
        for number in 0..<openings {
            // It changes nothing that a save would be worth, or dies while it opens.
            let between = world.anotherProcess()
            if isKilled {
                between.files.inject { call, _ in call == 30 + 5 * number ? .kill : nil }
                _ = try? between.open()
            } else {
                _ = try between.open().stored("key 1")
            }
            between.files.kill()
        }
        for (position, image) in try cuts(of: world.files.restarted().image).enumerated() {
            var world = World.shared()
            world.restart(with: image)
            let cache = try world.open()
            #expect(cache.values == expected, "cut \(position)")
            try cache.flush()
            #expect(cache.values == expected, "cut \(position)")
        }
    }

    @Test("with a damaged line hides no removal in that of another dead process")
    func otherLines() throws {
        let world = World.shared()
        let (second, third) = (world.anotherProcess(), world.anotherProcess())
        let (one, two, three) = (try world.open(), try second.open(), try third.open())
        try two.store("gone", "old")
        try two.store("gone", "new")
        try three.removeStored("gone").check(true)
        try two.store("abc", "two")
        second.files.kill()
        third.files.kill()
        try flip("abc", in: world.files)
        #expect(one.stored("gone") == nil)
        try one.flush()
        #expect(one.values == ["abc": "two 1 h"])
    }

    @Test("cut where the page has forgotten it loses no value", arguments: [8, 40])
    func forgotten(programs: Int) throws {
        let world = World.shared()
        let living = try world.open()
        let others = living.store.disk.others.object
        try living.store("x", "living")
        living.settle()
        // The process that saves is stopped.
        #expect(others.page.tryLock(.save, by: others.lane))
        for number in 0..<programs {
            let short = world.anotherProcess()
            let cache = try short.open()
            try cache.store("key \(number)", "old")
            try cache.store("key \(number)", "new")
            short.files.kill()
        }
        world.files.kill()
        var image = world.files.restarted().image
        let path = "/cache/" + journals(image)[1]
        let content = try #require(image.content(at: path))
        let header = try #require(content.firstIndex(of: UInt8(ascii: "\n")))
        image.setContent(Array(content[..<header]), at: path)
        var last = World.shared()
        last.restart(with: image)
        let cache = try last.open()
        #expect((0..<programs).allSatisfy { cache.stored("key \($0)") == "new 1 h" })
        try cache.flush()
        #expect((0..<programs).allSatisfy { cache.stored("key \($0)") == "new 1 h" })
    }

    @Test("is no proof against a file that could not be read", arguments: [true, false], [0, 1])
    func unreadable(isClosed: Bool, boots: UInt64) throws {
        var world = World.shared()
        let first = try world.open()
        try first.store("a", "old")
        try first.flush()
        try first.store("b", "new")
        world.files.kill()
        var image = world.files.restarted().image
        let path = "/cache/" + (try #require(journals(image).last))
        let content = try #require(image.content(at: path))
        let end = try #require(content.lastIndex(of: UInt8(ascii: "\n")))
        image.setContent(Array(content[..<end]), at: path)
        image.boot += 1
        world.restart(with: image)
        world.files.setUnreadable(true, at: "/cache/entries/" + (try #require(world.entryFiles.max())))
        let second = try world.open()
        #expect(second.stored("a") == nil)
        try second.store("c", "new")
        try second.flush()
        if isClosed { try second.close() } else { world.files.kill() }
        image = world.files.restarted().image
        image.boot += boots
        var last = World.shared()
        last.restart(with: image)
        let third = try last.open()
        #expect(third.values == ["a": "old 1 h", "b": "new 1 h", "c": "new 1 h"])
        try third.flush()
        #expect(third.values == ["a": "old 1 h", "b": "new 1 h", "c": "new 1 h"])
    }

    @Test("of dead processes is folded into the manifest when there are more than six")
    func folded() throws {
        let world = World.shared()
        let living = try world.open()
        for number in 0..<40 {
            let short = world.anotherProcess()
            let cache = try short.open()
            try cache.store("\(number)", "short")
            short.files.kill()
            #expect(journals(world.files.image).count <= 10)
        }
        #expect(living.values.count == 40)
        try living.close()
        let again = world.anotherProcess()
        #expect(try again.open().values.count == 40)
        again.files.kill()
        for number in 0..<40 {
            let short = world.anotherProcess()
            let cache = try short.open()
            try cache.store("\(number)", "alone")
            short.files.kill()
            #expect(journals(world.files.image).count <= 8)
        }
        #expect(try world.anotherProcess().open().values.count == 40)
    }
}

/// What a process has replaced is deleted before the last one closes.
@Suite("A file that a dead process has left")
struct FilesOfTheDeadTests {
    @Test("does not come back when the index is lost after all have closed")
    func removed() throws {
        let world = World.shared()
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        try one.store("a", "old")
        #expect(two.stored("a") == "old 1 h")
        // The other process owes the old file.
        try two.store("a", "new")
        other.files.kill()
        let three = try world.anotherProcess().open()
        try three.removeStored("a").check(true)
        #expect(one.stored("a") == nil)
        try three.close()
        try one.close()
        let image = world.files.image
        world.files.tamper {
            for name in image.names(at: "/cache") where name != "entries" { $0.remove(at: "/cache/" + name) }
        }
        let again = try world.open()
        #expect(again.values == [:])
    }
}

/// What keeps removed values dead must outlast the files of dead processes.
@Suite("A tombstone beside files of dead processes")
struct TombstonesOfTheDeadTests {
    /// A process that has cleared everything. Another one owes a file of a replaced value, and has been killed.
    private func cleared(isSeenDead: Bool) throws -> (World, DiskCache) {
        let world = World.shared()
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        try one.namespace("other").store("b", "kept")
        try one.store("a", "old")
        #expect(two.stored("a") == "old 1 h")
        try two.store("a", "new")
        #expect(world.entryFiles.count == 3)
        if isSeenDead { other.files.kill() }
        #expect(one.stored("a") == "new 1 h")
        if !isSeenDead { other.files.kill() }
        try one.removeAll()
        return (world, one)
    }

    @Test("keeps cleared values dead when the index is lost after a clean close")
    func flippedManifest() throws {
        var (world, one) = try cleared(isSeenDead: true)
        try one.close()
        try world.damage("manifest.json") { $0[$0.count / 2] ^= 1 }
        let again = try world.open()
        #expect(again.values == [:])
        try again.flush()
        #expect(again.values == [:])
    }

    @Test("stays while nobody has found a process dead that had replaced a value")
    func unburied() throws {
        var (world, one) = try cleared(isSeenDead: false)
        one.settle()
        try one.store("c", "kept")
        world.clock.advance(by: .seconds(1))
        one.settle()
        world.files.kill()
        var image = world.files.restarted().image
        var content = try #require(image.content(at: "/cache/manifest.json"))
        content[content.count / 2] ^= 1
        image.setContent(content, at: "/cache/manifest.json")
        world.restart(with: image)
        let again = try world.open()
        #expect(again.values == ["c": "kept 1 h"])
        try again.flush()
        #expect(again.values == ["c": "kept 1 h"])
    }
}

extension DiskCache {
    /// All that these tests store.
    fileprivate var values: [String: String] {
        let numbered = (0..<50).flatMap { ["\($0)", "key \($0)", "one \($0)", "two \($0)"] }
        let keys = numbered + ["a", "b", "c", "d", "x", "own", "gone", "abc", "new"]
        return keys.reduce(into: [:]) { $0[$1] = stored($1) }
    }
}

extension Bool {
    fileprivate func check(_ expected: Bool) {
        #expect(self == expected)
    }
}
