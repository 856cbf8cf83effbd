import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Releasing removed values, without a cache", .timeLimit(.minutes(10)))
struct ValueReleaserTests {
    private typealias Table = MemoryTable<String, Value>

    /// A value that notes its end.
    private final class Value: Sendable {
        let name: String
        let ended: Lock<[String]>

        init(_ name: String, _ ended: Lock<[String]>) {
            self.name = name
            self.ended = ended
        }

        deinit { ended.withLock { $0.append("-\(name)") } }
    }

    private let log = Lock<[String]>([])
    private let clock = ManualClock()
    private let table = Lock(
        Table(
            reportsKeys: true, returnsReplaced: false, slides: false, policy: .leastRecentlyUsed,
            limits: MemoryLimits(count: nil, cost: nil, entryCost: nil, age: nil)))

    private func releaser(
        _ release: ValueRelease, also react: @escaping @Sendable (_ key: String) -> Void = { _ in }
    ) -> ValueReleaser<String, Value> {
        let observers = RemovalObservers<String, Value>(observer: nil) { [log] key, _, cause in
            log.withLock { $0.append("\(key) \(cause)") }
            react(key)
        }
        return ValueReleaser(table, release, clock, observers)
    }

    private func insert(_ key: String) {
        let life = MemoryLife(begun: clock.now, expires: clock.now.advanced(byMilliseconds: 1000))
        let value = Value(key, log)
        _ = table.withLock {
            $0.insert(value, for: key, fingerprint: MemoryKey.fingerprint(key), life: life, cost: 0, at: clock.now)
        }
    }

    private static func remove(_ key: String, _ table: Lock<Table>) -> ReleaseDemand {
        table.withLock { table in
            table.remove(key, fingerprint: MemoryKey.fingerprint(key), .removed)
            return table.takeDemand()
        }
    }

    @Test("what a report removes is reported after it, by the outer call")
    func nested() {
        for key in ["a", "b", "c"] { insert(key) }
        let own = Lock<ValueReleaser<String, Value>?>(nil)
        let releaser = releaser(.inline) { [table] key in
            if key == "a" { own.withLock { $0 }?.release(Self.remove("b", table)) }
        }
        own.withLock { $0 = releaser }
        releaser.release(Self.remove("a", table))
        #expect(log.withLock { $0 } == ["a removed", "-a", "b removed", "-b"])
        own.withLock { $0 = nil }
    }

    @Test("a caller that holds locks releases nothing itself, also where values are released in the call")
    func background() async {
        insert("a")
        let releaser = releaser(.inline)
        let demand = Self.remove("a", table)
        table.withLock { _ in
            releaser.releaseInBackground(demand)
            #expect(log.withLock { $0 } == [])
        }
        await eventually { log.withLock { $0 } == ["a removed", "-a"] }
    }

    @Test("its end reports what was removed, and releases the rest without a report", arguments: [true, false])
    func end(isInline: Bool) async {
        for key in ["a", "b"] { insert(key) }
        _ = Self.remove("a", table)
        _ = releaser(isInline ? .inline : .background)
        let expected = ["a removed", "-a", "-b"]
        if isInline { #expect(log.withLock { $0 } == expected) }
        await eventually { log.withLock { $0 } == expected }
    }
}
