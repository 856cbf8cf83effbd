import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Histories of calls on few keys are linearizable")
struct HistoryTests {
    /// Collects what callers observe.
    private final class History: Sendable {
        private let calls = Lock<[ObservedCall]>([])
        private let last = Lock(0)

        var all: [ObservedCall] { calls.withLock { $0 } }

        /// A value that no other call stores.
        func newValue() -> Int {
            last.withLock { last in
                last += 1
                return last
            }
        }

        func run(
            _ caller: Int, _ keys: [String], _ operation: ObservedCall.Operation,
            _ body: () async throws -> ObservedCall.Result
        ) async rethrows {
            let begin = DispatchTime.now().uptimeNanoseconds
            let result = try await body()
            let end = DispatchTime.now().uptimeNanoseconds
            calls.withLock { calls in
                for key in keys {
                    calls.append(ObservedCall(caller: caller, key: key, operation, begin: begin, end: end, result))
                }
            }
        }
    }

    private static let keys = ["a", "b", "c"]

    @Test("through three caches, two of them with a memory tier of their own", arguments: 1...6)
    func manyTasks(seed: UInt64) async throws {
        let world = World.grouped { $0.saveDelay = .milliseconds(1) }
        let disk = try world.open()
        for number in 0..<30 { try disk.setString("-", forKey: "other \(number)") }
        var diskAlone = Cache<Int>.Configuration()
        diskAlone.memory = nil
        let caches: [Cache<Int>] = [
            Cache(disk: disk, namespace: "n"), Cache(disk: try world.open(), namespace: "n"),
            Cache(disk: disk, namespace: "n", configuration: diskAlone),
        ]
        let history = History()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for caller in 0..<8 {
                group.addTask {
                    var generator = SeededGenerator(seed: seed * 100 + UInt64(caller))
                    for step in 0..<120 {
                        let key = Self.keys.randomElement(using: &generator)!
                        let cache = caches.randomElement(using: &generator)!
                        try await Self.act(
                            generator.next() % 100, caller, cache, key, history)
                        if caller == 0, step % 16 == 0 { world.clock.advance(by: .milliseconds(2)) }
                    }
                }
            }
            try await group.waitForAll()
        }
        let calls = history.all
        let violations = Linearizability.violations(in: calls)
        #expect(violations.isEmpty, "seed \(seed): \(violations.map(\.description).joined(separator: "\n"))")
        #expect(calls.count > 900)
    }

    private static func act(
        _ choice: UInt64, _ caller: Int, _ cache: Cache<Int>, _ key: String, _ history: History
    ) async throws {
        let new = history.newValue()
        switch choice {
        case 0..<45:
            await history.run(caller, [key], .get) { .value(await cache.value(forKey: key)) }
        case 45..<70:
            try await history.run(caller, [key], .set(new)) {
                try await cache.setValue(new, forKey: key)
                return .none
            }
        case 70..<80:
            try await history.run(caller, [key], .setIfAbsent(new)) {
                .value(try await cache.setValueIfAbsent(new, forKey: key))
            }
        case 80..<88:
            try await history.run(caller, [key], .modify(new)) {
                .value(
                    try await cache.modifyValue(forKey: key) { value in
                        defer { value = new }
                        return value
                    })
            }
        case 88..<97:
            try await history.run(caller, [key], .remove) { .wasDone(try await cache.removeValue(forKey: key)) }
        default:
            try await history.run(caller, keys, .clear) {
                try await cache.removeAll()
                return .none
            }
        }
    }
}
