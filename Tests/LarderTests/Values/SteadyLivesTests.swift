import Foundation
import Larder
import LarderFiles
import LarderTestSupport
import Testing

@Suite("A clock that is set back a little")
struct SteadyLivesTests {
    @Test("lengthens no life, in memory and on disk", arguments: [1.0, 30, 59], [false, true])
    func lives(step: Double, slides: Bool) throws {
        let time = Lock(Date(timeIntervalSince1970: 1_800_000_000))
        let home = try TemporaryDirectory()
        var onDisk = DiskCache.Configuration()
        onDisk.now = { time.withLock { $0 } }
        onDisk.slidingExpiry = slides
        let disk = try DiskCache(directory: home.appending("cache"), configuration: onDisk)
        var inMemory = MemoryCache<String, String>.Configuration()
        inMemory.now = { time.withLock { $0 } }
        inMemory.slidingExpiry = slides
        let memory = MemoryCache(configuration: inMemory)
        func set(_ seconds: Double) { time.withLock { $0 += seconds } }
        try disk.setString("v", forKey: "k", ttl: .seconds(5))
        memory.setValue("v", forKey: "k", ttl: .seconds(5))
        // The caches look at the clock now and then.
        set(1)
        #expect(disk.hasValue(forKey: "k") && memory.hasValue(forKey: "k"))
        set(-step)
        #expect(disk.hasValue(forKey: "k") && memory.hasValue(forKey: "k"))
        set(3.999)
        #expect(disk.hasValue(forKey: "k") && memory.hasValue(forKey: "k"))
        set(0.001)
        #expect(!disk.hasValue(forKey: "k") && !memory.hasValue(forKey: "k"))
        #expect(disk.string(forKey: "k") == nil && memory["k"] == nil)
    }
}
