import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("A configuration is written in one expression")
struct ConfigurationTests {
    @Test("each label sets its property, and each default is the documented one")
    func labels() {
        let plain = DiskCache.Configuration()
        #expect(plain.defaultTTL == .days(1) && !plain.slidingExpiry && plain.saveDelay == .milliseconds(500))
        #expect(plain.sweepInterval == .seconds(60) && plain.countLimit == nil && plain.sizeLimit == nil)
        #expect(plain.ageLimit == nil && plain.minimumFreeSpace == nil && plain.durability == .killSafe)
        #expect(plain.eviction == .adaptive && plain.settings.eviction == .adaptive)
        #expect(plain.manifestFormat == .json && plain.onEvent == nil && plain.clock is SystemClock)
        let log = EventLog()
        let full = DiskCache.Configuration(
            defaultTTL: .hours(1), slidingExpiry: true, saveDelay: .seconds(1), sweepInterval: nil, countLimit: 1,
            sizeLimit: 2, ageLimit: .seconds(3), minimumFreeSpace: 4, eviction: .leastRecentlyUsed,
            durability: .powerSafe, manifestFormat: .propertyList, onEvent: log.note)
        #expect(full.defaultTTL == .hours(1) && full.slidingExpiry && full.saveDelay == .seconds(1))
        #expect(full.sweepInterval == nil && full.countLimit == 1 && full.sizeLimit == 2)
        #expect(full.ageLimit == .seconds(3) && full.minimumFreeSpace == 4 && full.durability == .powerSafe)
        #expect(full.eviction == .leastRecentlyUsed && full.settings.eviction == .leastRecentlyUsed)
        #expect(full.manifestFormat == .propertyList && full.onEvent != nil && full.clock is SystemClock)
        #expect(full.settings.limits == StoreSettings.Limits(count: 1, size: 2, age: 3_000, minimumFreeSpace: 4))
    }

    @Test("several values are removed in one call; an error names the unchanged keys")
    func removeValues() throws {
        let world = World.exclusive()
        let cache = try world.open()
        for number in 0..<6 { try cache.setString("v", forKey: "\(number)") }
        #expect(try cache.removeValues(forKeys: ["0", "none", "1", "0"]) == 2)
        #expect(try cache.removeValues(forKeys: [String]()) == 0 && Set(cache.keys()) == ["2", "3", "4", "5"])
        let removals = Lock(0)
        world.files.inject { _, operation in
            // Without a record, the files tell.
            if operation == .write { return .fail(.io) }
            guard case .remove = operation else { return nil }
            return removals.withLock { count in
                count += 1
                return count == 2 ? .fail(.notPermitted) : nil
            }
        }
        let error = #expect(throws: CacheError.self) { try cache.removeValues(forKeys: ["2", "3", "4", "5"]) }
        #expect(error?.code == .io && Set(cache.keys()) == ["3", "4", "5"])
        #expect(error?.keys == ["3", "4", "5"])
        world.files.inject(nil)
        try cache.close()
        #expect(code { try cache.removeValues(forKeys: ["3"]) } == .closed)
    }
}
