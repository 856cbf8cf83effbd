import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// Two queues work in the background: one runs saves, the other everything else. Each test stops a call of one of them.
@Suite("Saves during other background work")
struct SaveRaceTests {
    enum Work: CaseIterable {
        case save, delete
    }

    @Test(
        "running background work keeps the directory lock after the last handle was released",
        arguments: Work.allCases)
    func keepsLock(work: Work) throws {
        let world = World { $0.sweepInterval = nil }
        let gate = GatedFileSystem(world.files)
        var cache: DiskCache? = try world.open(through: gate)
        for _ in 0..<40 { try cache!.setString("a", forKey: "a") }
        cache!.settle()
        let call = gate.hold { call, name, _ in
            switch work {
            case .save: call == .create && name.hasSuffix(".tmp")
            case .delete: call == .remove && name.hasPrefix("0000")
            }
        }
        try cache!.setString("b", forKey: "a")
        world.clock.advance(by: .seconds(1))
        call.reached.wait()
        cache = nil
        let other = try world.files.openDirectory(path: "/cache", creation: .never)
        let isFree = try world.files.lock(other)
        #expect(!isFree, "another process may open the directory while ours still writes")
        if isFree { world.files.unlock(other) }
        call.free.signal()
    }

    @Test("a tombstone stays until the file that it covers is deleted")
    func earlyTombstone() throws {
        var world = World { $0.sweepInterval = .seconds(60) }
        var cache = try world.open()
        try cache.setString("v", forKey: "k")
        try cache.setString("v", forKey: "proof")
        world.remove(try world.journal)
        let file = world.entryFiles[0]
        world.files.setUnreadable(true, at: "/cache/entries/" + file)
        let gate = GatedFileSystem(world.files)
        cache = try world.open(through: gate)
        try cache.removeValue(forKey: "k")
        try cache.flush()
        #expect(world.entryFiles.count == 3, "the file and the tombstone: \(world.entryFiles)")
        world.files.setUnreadable(false, at: "/cache/entries/" + file)
        let deletion = gate.hold { call, name, _ in call == .remove && name == file }
        world.clock.advance(by: .seconds(61))
        deletion.reached.wait()
        try cache.setString("v", forKey: "other")
        world.clock.advance(by: .seconds(1))
        try cache.store.housekeeper.save(always: false)
        let image = world.files.image
        deletion.free.signal()
        #expect(image.names(at: "/cache/entries").contains { $0.hasPrefix("40") }, "the tombstone")
        // Killed, and the index lost.
        world.restart(with: image)
        world.loseIndex()
        let last = try world.open()
        #expect(last.string(forKey: "k") == nil, "it was removed")
        try last.flush()
        #expect(last.string(forKey: "k") == nil, "still")
    }

    @Test("the next opening does not trust a manifest saved during the repair of a damaged index")
    func amidRepair() throws {
        var world = World { $0.sweepInterval = nil }
        var cache = try world.open()
        for number in 0..<3000 { try cache.setString("old", forKey: "\(number)") }
        try cache.flush()
        world.files.inject { _, call in call == .remove ? .fail(.io) : nil }
        for number in 0..<3000 { try cache.setString("new", forKey: "\(number)") }
        world.remove(try world.journal)
        let original = world
        let image = Lock<MemoryImage?>(nil)
        cache = try world.files.holdingOtherReaders {
            let cache = try original.open()
            try cache.setString("v", forKey: "other")
            original.clock.advance(by: .seconds(1))
            try cache.store.housekeeper.save(always: false)
            image.withLock { $0 = original.files.image }
            return cache
        }
        world.restart(with: try #require(image.withLock { $0 }))
        let next = world
        try next.files.holdingOtherReaders {
            let cache = try next.open()
            var old = 0
            for number in 0..<3000 where cache.string(forKey: "\(number)") == "old" { old += 1 }
            #expect(old == 0, "replaced values are returned")
        }
    }

    @Test("the leftover of a killed save is not confused with the file of the next save")
    func tidyAmidSave() throws {
        var world = World { $0.sweepInterval = nil }
        var cache = try world.open()
        try cache.setString("v", forKey: "k")
        world.restart()
        // A power cut kept the temporary manifest of a save, but not the journal that the save had begun.
        do {
            let root = try world.files.openDirectory(path: "/cache", creation: .never)
            _ = try world.files.open(DirectoryLayout.temporaryManifest(2).name, in: root, for: .creating)
        }
        let gate = GatedFileSystem(world.files)
        let tidy = gate.hold { call, name, _ in call == .remove && name.hasSuffix(".tmp") }
        let save = gate.hold { call, name, _ in call == .rename && name == "manifest.json" }
        cache = try world.open(through: gate)
        tidy.reached.wait()
        try cache.setString("v", forKey: "other")
        world.clock.advance(by: .seconds(1))
        tidy.free.signal()
        // A save that comes while the leftover is looked at is left to a later one.
        while save.reached.wait(timeout: .now() + .milliseconds(100)) == .timedOut {
            world.clock.advance(by: .seconds(1))
        }
        cache.store.maintenance.wait()
        save.free.signal()
        try cache.store.housekeeper.alone {}
        #expect(cache.statistics.failures == 0 && world.names.contains("manifest.json"), "\(world.names)")
    }
}
