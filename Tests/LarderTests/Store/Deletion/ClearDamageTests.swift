import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// Each directory here is used first, and then flushed.
@Suite("Clears with lost indexes, in combinations that once lost or revived values", .storm)
struct ClearDamageTests {
    @Test(
        "after a lost index was rebuilt, the loss of the manifest alone loses no entry", arguments: [0, 1, 2],
        [0, 15, 10, 20])
    func manifestLostAfterCleanClose(kind: Int, second: Int) throws {
        var world = World { $0.sweepInterval = nil }
        var cache = try world.open()
        try cache.setString("v", forKey: "k")
        var image = world.files.image
        for name in image.names(at: "/cache") where name != "entries" { image.remove(at: "/cache/" + name) }
        world.restart(with: image)
        cache = try world.open()
        cache.settle()
        if kind == 1 { try cache.flush() }
        if kind == 2 { #expect(cache.string(forKey: "k") == "v") }
        try cache.close()
        image = world.files.image
        let before = image.names(at: "/cache")
        for name in before where name.hasPrefix("manifest") { image.remove(at: "/cache/" + name) }
        world.restart(with: image)
        if second > 0 {
            world.files.inject { call, _ in call >= second ? .kill : nil }
            if let other = try? world.open() { other.settle() }
            world.restart()
        }
        cache = try world.open()
        try cache.flush()
        let journal = image.names(at: "/cache").filter { $0.hasPrefix("journal") }.map {
            String(decoding: image.content(at: "/cache/" + $0) ?? [], as: UTF8.self)
        }
        #expect(
            cache.string(forKey: "k") == "v",
            "kind \(kind) second \(second): the manifest was deleted after a clean close: \(before) journal \(journal) now \(world.names) \(world.entryFiles)"
        )
    }

    @Test("numbers of directories in the trash are not reused, even when the index is lost")
    func trashNumbersAfterLoss() throws {
        var world = World { $0.sweepInterval = nil }
        var cache = try world.open()
        for n in 0..<3 { try cache.setString("old", forKey: "\(n)") }
        // Killed right after the call: the trash is not empty. The index is lost.
        var image = try cache.store.maintenance.alone {
            try cache.namespace("").removeAll()
            return world.files.image
        }
        for name in image.names(at: "/cache") where name != "entries" && name != "trash" {
            image.remove(at: "/cache/" + name)
        }
        world.restart(with: image)
        // A file in the trash cannot be deleted yet.
        world.files.inject { _, o in o == .remove ? .fail(.io) : nil }
        cache = try world.open()
        cache.settle()
        try cache.setString("new", forKey: "n")
        // Killed between the renamings of another clear.
        let renames = Lock(0)
        world.files.inject { _, o in
            if o == .remove { return .fail(.io) }
            return o == .rename
                && renames.withLock {
                    $0 += 1; return $0
                } == 2 ? .kill : nil
        }
        #expect(code { try cache.removeAll() } != nil)
        world.restart()
        cache = try world.open()
        #expect(cache.string(forKey: "1") == nil, "a removed value is back")
        #expect(cache.string(forKey: "n") == "new", "a stored value is lost")
        try cache.flush()
        #expect(cache.string(forKey: "n") == "new", "a stored value is lost")
    }

    @Test("a clear succeeds while an older one waits in the trash")
    func clearAfterLossWithTrash() throws {
        var world = World { $0.sweepInterval = nil }
        var cache = try world.open()
        for n in 0..<3 { try cache.setString("old", forKey: "\(n)") }
        var image = try cache.store.maintenance.alone {
            try cache.namespace("").removeAll()
            return world.files.image
        }
        for name in image.names(at: "/cache") where name != "entries" && name != "trash" {
            image.remove(at: "/cache/" + name)
        }
        world.restart(with: image)
        cache = try world.open()
        // Before the trash is empty.
        cache.store.maintenance.alone {
            for n in 0..<10 {
                let error = code { try cache.removeAll() }
                #expect(error == nil, "clear \(n) throws \(error!)")
            }
        }
    }

    @Test("on a full disk, a clear does not forget an undeletable old file", arguments: [true, false])
    func fullDiskStuckObsolete(isRoot: Bool) throws {
        var world = World { $0.sweepInterval = nil }
        let cache = try world.open()
        var part = isRoot ? cache : cache.namespace("p")
        if isRoot { try cache.namespace("other").setString("x", forKey: "x") }
        try part.setString("old", forKey: "k")
        try part.setString("new", forKey: "k")
        let removes = Lock(0)
        world.files.inject { _, o in
            if o == .remove {
                return removes.withLock {
                    $0 += 1; return $0 == 1 || $0 == 3 ? .fail(.io) : nil
                }
            }
            return o == .create || o == .write ? .fail(.noSpace) : nil
        }
        let isRemoved = code { try part.removeAll() } == nil
        var image = world.files.image
        for name in image.names(at: "/cache") where name != "entries" { image.remove(at: "/cache/" + name) }
        world.restart(with: image)
        let again = try world.open()
        part = isRoot ? again : again.namespace("p")
        #expect(
            isRemoved ? part.string(forKey: "k") == nil : part.string(forKey: "k") != "old", "removed: \(isRemoved)")
    }

    @Test("clearing a namespace with too long a name is an error, and damages nothing")
    func longNamespaceClear() throws {
        var world = World { $0.sweepInterval = nil }
        var cache = try world.open()
        try cache.setString("old", forKey: "k")
        try cache.setString("new", forKey: "k")
        let error = code { try cache.namespace(String(repeating: "n", count: 2 << 20)).removeAll() }
        try cache.setString("v", forKey: "later")
        world.restart()
        cache = try world.open()
        #expect(cache.statistics.damagedLines == 0, "\(String(describing: error)) damaged the journal")
        #expect(cache.string(forKey: "later") == "v")
        #expect(cache.string(forKey: "k") == "new")
        try cache.flush()
        #expect(cache.string(forKey: "later") == "v")
        cache.checkInvariants(world, settled: true)
        #expect(error == .tooLarge)
    }

    @Test("a power-safe clear and later sets survive a power cut, with a new journal")
    func powerCutAfterClearWithoutJournal() throws {
        var world = World {
            $0.sweepInterval = nil; $0.durability = .powerSafe
        }
        var cache = try world.open()
        try cache.setString("old", forKey: "k")
        try cache.flush()
        var image = world.files.image
        for name in image.names(at: "/cache") where name.hasPrefix("journal") { image.remove(at: "/cache/" + name) }
        world.restart(with: image)
        cache = try world.open()
        try cache.removeAll()
        try cache.setString("new", forKey: "n")
        for seed in Sample.few(10, of: 1...40 as ClosedRange<UInt64>) {
            var g = SeededGenerator(seed: seed)
            var after = world
            after.restart(with: world.files.imageAfterPowerCut(using: &g))
            let names = after.names
            let again = try after.open()
            #expect(again.string(forKey: "k") == nil && again.string(forKey: "n") == "new", "seed \(seed) \(names)")
        }
    }
}
