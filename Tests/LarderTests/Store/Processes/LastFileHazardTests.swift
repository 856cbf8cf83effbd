import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import Testing

@testable import Larder
@testable import LarderTesting

@Suite("Last files beside damage, power cuts, kills and readers")
struct LastFileHazardTests {
    @Test("an opened value stays whole when it is removed", arguments: [false, true])
    func opened(owes: Bool) throws {
        let world = World.shared { $0.sweepInterval = nil }
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        if owes {
            try one.setString("old", forKey: "z", ttl: .forever)
            try one.setString("new", forKey: "z", ttl: .forever)
        }
        let big = Data(repeating: 0x78, count: 100_000)
        try two.setData(big, forKey: "k", ttl: .forever)
        let file = try #require(two.openValue(forKey: "k") { _ in false })
        _ = try two.removeValue(forKey: "k")
        let read = try? file.read(0..<100)
        #expect(read == big.prefix(100), "\(String(decoding: read ?? Data(), as: UTF8.self))")
        let rest = try? file.read(0..<big.count)
        #expect(rest == big, "\(rest?.count ?? -1)")
    }

    @Test(
        "ending a value whose record is damaged brings no older one back",
        arguments: [0, 1000], [0, 1, 2])
    func damagedFooter(inlineThreshold: Int, kind: Int) throws {
        let world = World.shared {
            $0.sweepInterval = nil
            $0.inlineThreshold = inlineThreshold
        }
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        try one.setString("old value", forKey: "k", ttl: .forever)
        try two.setString("new value", forKey: "k", ttl: .forever)
        #expect(one.string(forKey: "k") == "new value")
        world.files.tamper { image in
            var paths = image.names(at: "/cache/entries").filter { $0 != "segments" }.map { "/cache/entries/" + $0 }
            paths += image.names(at: "/cache/entries/segments").map { "/cache/entries/segments/" + $0 }
            for path in paths {
                guard var content = image.content(at: path),
                    let found = Data(content).range(of: Data("new value".utf8))
                else { continue }
                // The record behind the payload: one bit.
                content[found.upperBound + 4] ^= 1
                image.setContent(content, at: path)
            }
        }
        switch kind {
        case 0: _ = try one.removeValue(forKey: "k")
        case 1: one.trim(toCount: 0)
        default: try one.expireValue(forKey: "k")
        }
        #expect(one.string(forKey: "k") == nil && two.string(forKey: "k") == nil)
        let names = world.entryFiles
        world.files.kill()
        other.files.kill()
        var next = world
        next.restart(with: World.withoutIndex(world.files.restarted().image))
        let cache = try next.open()
        #expect(cache.string(forKey: "k") == nil)
        try cache.flush()
        #expect(cache.string(forKey: "k") == nil, "\(names)")
    }

    @Test("a power cut after room was made brings nothing back", arguments: [0, 1000])
    func powerCutForRoom(inlineThreshold: Int) throws {
        let world = World.shared {
            $0.sweepInterval = nil
            $0.durability = .powerSafe
            $0.inlineThreshold = inlineThreshold
        }
        let other = world.anotherProcess()
        let (one, two) = (try world.open(), try other.open())
        try one.setString("old", forKey: "k", ttl: .forever)
        try one.setString("new", forKey: "k", ttl: .forever)
        _ = try two.removeValue(forKey: "k")
        #expect(two.store.index.hasFilesAside)
        let names = world.entryFiles
        two.trim(toFreeSpace: 1)
        let after = world.entryFiles
        let found = try world.valuesAfterPowerCuts(0..<100)
        #expect(found.isEmpty, "\(found), \(names) \(after)")
    }

    @Test("a power cut while the files of a dead process are deleted brings nothing back")
    func powerCutAfterDeath() throws {
        for call in 1..<60 {
            let world = World.shared {
                $0.sweepInterval = nil
                $0.durability = .powerSafe
            }
            let other = world.anotherProcess()
            let (one, two) = (try world.open(), try other.open())
            try one.setString("kept", forKey: "kept", ttl: .forever)
            other.files.inject { _, operation in operation == .remove ? .fail(.io) : nil }
            for value in ["oldest", "old", "new"] { try two.setString(value, forKey: "k", ttl: .forever) }
            _ = try? two.removeValue(forKey: "k")
            #expect(one.string(forKey: "k") == nil)
            other.files.kill()
            let isReached = world.killing(in: call)
            one.store.housekeeper.deleteLeftFiles()
            // The removal has failed, so the last value may come back.
            let found = try world.valuesAfterPowerCuts(0..<20).filter { $0.value != "new" }
            #expect(found.isEmpty, "call \(call): \(found)")
            if !isReached.withLock({ $0 }) { break }
        }
    }

    @Test("a copy that a killed cleaner left does not revive a removed value", arguments: [0, 320])
    func movedCopy(count: Int) throws {
        var failures: [String] = []
        var reached = 0
        for call in 1..<80 {
            let world = World.shared {
                $0.sweepInterval = nil
                $0.inlineThreshold = 1000
                $0.segmentLength = 4096
            }
            let other = world.anotherProcess()
            let (one, two) = (try world.open(), try other.open())
            for number in 0..<15 {
                try two.setString(String(repeating: "f", count: 500), forKey: "f\(number)", ttl: .forever)
                if number == 2 { try two.setString("value", forKey: "k", ttl: .forever) }
            }
            for number in 0..<15 { try two.removeValue(forKey: "f\(number)") }
            #expect(one.string(forKey: "k") == "value")
            two.settle()
            let isReached = other.killing(in: call)
            two.store.cleaner.cleanInBackground(isShort: true)
            two.settle()
            if !isReached.withLock({ $0 }) { break }
            reached += 1
            other.files.kill()
            try one.removeValue(forKey: "k")
            for number in 0..<count { try one.setString("\(number)", forKey: "l\(number)", ttl: .forever) }
            #expect(one.string(forKey: "k") == nil)
            world.files.kill()
            var next = world
            next.restart(with: World.withoutIndex(world.files.restarted().image))
            let cache = try next.open()
            let first = cache.string(forKey: "k")
            try cache.flush()
            let found = cache.string(forKey: "k")
            try cache.close()
            if first != nil || found != nil { failures.append("\(call): \(first ?? "nil") \(found ?? "nil")") }
        }
        #expect(failures == [], "\(reached)")
    }

    @Test("a late use does not revive a removed value")
    func lateUse() throws {
        let world = World.shared {
            $0.sweepInterval = nil
            $0.slidingExpiry = true
            $0.inlineThreshold = 0
        }
        let (other, third) = (world.anotherProcess(), world.anotherProcess())
        let gate = GatedFileSystem(other.files)
        let (one, two, three) = (try world.open(), try other.open(through: gate), try third.open())
        try three.setString("old", forKey: "k", ttl: .seconds(100_000))
        // It owes a file, and cannot delete it for now.
        third.files.inject { _, operation in operation == .remove ? .fail(.io) : nil }
        try three.setString("old 2", forKey: "k", ttl: .seconds(100_000))
        let new = String(repeating: "n", count: 100_000)
        try two.setString(new, forKey: "k", ttl: .seconds(1000))
        world.clock.advance(by: .seconds(300))
        let hold = gate.hold { operation, _, size in operation == .write && size == EntryFile.slotLength }
        let isDone = DispatchSemaphore(value: 0)
        DispatchQueue.global().async {
            _ = two.string(forKey: "k")
            isDone.signal()
        }
        let isHeld = hold.reached.wait(timeout: .now() + 5) == .success
        #expect(isHeld)
        #expect(try one.removeValue(forKey: "k"))
        #expect(one.string(forKey: "k") == nil)
        #expect(one.store.index.hasFilesAside)
        hold.free.signal()
        isDone.wait()
        #expect(one.string(forKey: "k") == nil && two.string(forKey: "k") == nil)
        world.files.kill()
        other.files.kill()
        third.files.kill()
        var next = world
        next.restart(with: World.withoutIndex(world.files.restarted().image))
        let cache = try next.open()
        let first = cache.string(forKey: "k")
        #expect(first == nil)
        try cache.flush()
        let found = cache.string(forKey: "k")
        #expect(found == nil)
    }

    @Test("one unreadable file does not fill the disk of a limited cache", arguments: [false, true])
    func full(isReopened: Bool) throws {
        var world = World.exclusive {
            $0.sweepInterval = nil
            $0.sizeLimit = 200_000
        }
        var cache = try world.open()
        try cache.setString("bad", forKey: "bad", ttl: .forever)
        let bad = try #require(world.entryFiles.last)
        try cache.setString("good", forKey: "good", ttl: .forever)
        world.killAndLoseIndex()
        world.files.setUnreadable(true, at: "/cache/entries/" + bad)
        cache = try world.open()
        try cache.flush()
        world.files.limitFreeSpace(to: 2_000_000)
        let big = String(repeating: "x", count: 20_000)
        for number in 0..<300 {
            if isReopened, number == 50 {
                try cache.close()
                cache = try world.open()
                try cache.flush()
            }
            try cache.setString(big, forKey: "\(number)", ttl: .forever)
        }
        cache.settle()
    }

    @Test("one unreadable file makes a limited number of others stay", arguments: [0, 1000])
    func unreadable(inlineThreshold: Int) throws {
        var world = World.exclusive {
            $0.sweepInterval = nil
            $0.inlineThreshold = inlineThreshold
        }
        var cache = try world.open()
        try cache.setString(String(repeating: "b", count: 5000), forKey: "bad", ttl: .forever)
        let bad = try #require(world.entryFiles.last)
        try cache.setString("good", forKey: "good", ttl: .forever)
        world.killAndLoseIndex()
        world.files.setUnreadable(true, at: "/cache/entries/" + bad)
        cache = try world.open()
        try cache.flush()
        for number in 0..<3000 { try cache.setString("x", forKey: "\(number)", ttl: .seconds(10)) }
        for _ in 0..<2 {
            world.clock.advance(by: .seconds(11))
            cache.removeExpired()
            try cache.flush()
        }
        #expect(cache.count == 1 && world.fileCount < 2500)
    }
}
