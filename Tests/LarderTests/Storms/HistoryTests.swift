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

@Suite("The checker of histories")
struct LinearizabilityTests {
    private typealias Call = ObservedCall

    private func call(
        _ operation: Call.Operation, _ begin: UInt64, _ end: UInt64?, _ result: Call.Result = .none
    ) -> Call {
        Call(caller: 0, key: "k", operation, begin: begin, end: end, result)
    }

    private func isPossible(_ calls: Call...) -> Bool { Linearizability.violations(in: calls).isEmpty }

    @Test("calls one after another")
    func sequential() {
        #expect(isPossible(call(.get, 1, 2, .value(nil)), call(.set(1), 3, 4), call(.get, 5, 6, .value(1))))
        #expect(!isPossible(call(.set(1), 1, 2), call(.set(2), 3, 4), call(.get, 5, 6, .value(1))))
        #expect(!isPossible(call(.set(1), 1, 2), call(.get, 3, 4, .value(nil))))
        #expect(!isPossible(call(.set(1), 1, 2), call(.remove, 3, 4, .wasDone(true)), call(.get, 5, 6, .value(1))))
        #expect(!isPossible(call(.set(1), 1, 2), call(.remove, 3, 4, .wasDone(false))))
        #expect(!isPossible(call(.set(1), 1, 2), call(.clear, 3, 4), call(.get, 5, 6, .value(1))))
    }

    @Test("calls side by side")
    func concurrent() {
        #expect(isPossible(call(.set(1), 1, 9), call(.get, 2, 3, .value(nil)), call(.get, 4, 5, .value(1))))
        #expect(!isPossible(call(.set(1), 1, 9), call(.get, 2, 3, .value(1)), call(.get, 4, 5, .value(nil))))
        #expect(
            isPossible(
                call(.set(1), 1, 9), call(.set(2), 1, 9), call(.get, 2, 3, .value(2)), call(.get, 4, 5, .value(1))))
        #expect(
            !isPossible(
                call(.set(1), 1, 3), call(.set(2), 1, 3), call(.get, 4, 5, .value(2)), call(.get, 6, 7, .value(1))))
        // An overwritten value that nobody has seen.
        #expect(isPossible(call(.set(1), 1, 9), call(.set(2), 2, 3), call(.get, 10, 11, .value(2))))
    }

    @Test("a lost update, and two calls that both found nothing")
    func conditional() {
        #expect(!isPossible(call(.modify(1), 1, 9, .value(nil)), call(.modify(2), 1, 9, .value(nil))))
        #expect(isPossible(call(.modify(1), 1, 9, .value(nil)), call(.modify(2), 1, 9, .value(1))))
        #expect(!isPossible(call(.setIfAbsent(1), 1, 9, .value(nil)), call(.setIfAbsent(2), 1, 9, .value(nil))))
        #expect(isPossible(call(.setIfAbsent(1), 1, 9, .value(2)), call(.setIfAbsent(2), 1, 9, .value(nil))))
        #expect(
            !isPossible(call(.set(1), 1, 2), call(.remove, 3, 9, .wasDone(true)), call(.remove, 3, 9, .wasDone(true))))
    }

    @Test("a call in which its caller was killed may take effect late, once, or never")
    func killed() {
        #expect(isPossible(call(.set(1), 1, nil), call(.get, 2, 3, .value(nil)), call(.get, 4, 5, .value(1))))
        #expect(isPossible(call(.set(1), 1, nil), call(.get, 2, 3, .value(nil)), call(.get, 4, 5, .value(nil))))
        #expect(!isPossible(call(.set(1), 1, nil), call(.get, 2, 3, .value(1)), call(.get, 4, 5, .value(nil))))
        #expect(
            !isPossible(
                call(.set(1), 1, nil), call(.get, 2, 3, .value(1)), call(.set(2), 4, 5), call(.get, 6, 7, .value(1))))
        // Forgotten, after many, but not while its value is still seen.
        var calls = (0..<100).map { call(.set(100 + $0), UInt64($0) * 40 + 1, nil) }
        calls += (0..<2_000).map { call(.get, UInt64($0) * 2 + 1, UInt64($0) * 2 + 2, .value(nil)) }
        calls.append(call(.get, 5_000, 5_001, .value(199)))
        #expect(Linearizability.violations(in: calls).isEmpty)
        calls.append(call(.get, 5_002, 5_003, .value(nil)))
        #expect(Linearizability.violations(in: calls).count == 1)
    }

    @Test("the calls of a register are possible, and one wrong result among them is found", arguments: 1...20)
    func random(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var calls: [Call] = []
        var value: Int?
        for step in 0..<400 {
            // Each takes effect at its moment, somewhere between its beginning and its end.
            let moment = UInt64(step) * 10 + 1_000
            let begin = moment - UInt64.random(in: 1...60, using: &generator)
            let end = moment + UInt64.random(in: 1...60, using: &generator)
            let operation: Call.Operation = [
                .get, .get, .set(step), .setIfAbsent(step), .modify(step), .remove, .clear,
            ].randomElement(using: &generator)!
            let before = value
            switch operation {
            case .get: calls.append(call(.get, begin, end, .value(before)))
            case .set: (value, _) = (step, calls.append(call(operation, begin, end)))
            case .setIfAbsent: (value, _) = (before ?? step, calls.append(call(operation, begin, end, .value(before))))
            case .modify: (value, _) = (step, calls.append(call(operation, begin, end, .value(before))))
            case .remove: (value, _) = (nil, calls.append(call(operation, begin, end, .wasDone(before != nil))))
            case .clear: (value, _) = (nil, calls.append(call(operation, begin, end)))
            }
        }
        #expect(Linearizability.violations(in: calls).isEmpty, "seed \(seed)")
        let place = try #require(
            calls.indices.filter { calls[$0].operation == .get && $0 > 50 }.randomElement(using: &generator))
        // A value that was overwritten long before.
        let stale = try #require(
            calls[..<(place - 40)].compactMap { call -> Int? in
                if case .set(let value) = call.operation { value } else { nil }
            }.first)
        let get = calls[place]
        calls[place] = call(.get, get.begin, get.end, .value(stale))
        #expect(Linearizability.violations(in: calls).count == 1, "seed \(seed)")
    }
}
