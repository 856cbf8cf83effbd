import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("A process that evicts, and is stopped or dying")
struct EvictorsTests {
    @Test("does not keep another one from its limits")
    func stopped() throws {
        let world = World.shared { $0.countLimit = 100 }
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        let others = two.store.disk.others.object
        try two.store("a", "two")
        // An opening evicts in the background, too.
        for cache in [one, two] { cache.settle() }
        #expect(others.page.tryLock(.evict, by: others.lane))
        for number in 0..<1000 {
            try one.setData(Data(repeating: 1, count: 10), forKey: "\(number)")
            // A twentieth and a slice.
            #expect(one.count <= 100 + 5 + 256 + 1)
        }
        #expect(others.page.tryLock(.evict, by: others.lane) == false)
        others.page.unlock(.evict, by: others.lane)
        // The next store finds the role free.
        try one.store("b", "one")
        try one.flush()
        #expect(two.count <= 101)
    }

    @Test("does not keep another one from making room")
    func stoppedWithoutRoom() throws {
        let world = World.shared { $0.countLimit = 1000 }
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        let others = two.store.disk.others.object
        for number in 0..<100 { try one.setData(Data(repeating: 1, count: 10_000), forKey: "\(number)") }
        world.files.limitFreeSpace(to: 0)
        for cache in [one, two] { cache.settle() }
        #expect(others.page.tryLock(.evict, by: others.lane))
        for number in 100..<120 {
            try one.setData(Data(repeating: 1, count: 10_000), forKey: "\(number)")
            #expect(one.hasValue(forKey: "\(number)"))
        }
        others.page.unlock(.evict, by: others.lane)
    }

    @Test("evicts nothing for a value that the disk can never have")
    func tooLarge() throws {
        let world = World.shared { $0.countLimit = 1000 }
        let cache = try world.open()
        for number in 0..<100 { try cache.setData(Data(repeating: 1, count: 1000), forKey: "\(number)") }
        world.files.limitFreeSpace(to: 0)
        #expect(throws: CacheError.self) { try cache.setData(Data(repeating: 1, count: 10 << 20), forKey: "large") }
        #expect(cache.count == 100)
    }
}
