import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// A change of one process is held in each of its system calls and at each of its accesses to the page, while another
/// process makes its own. Both go on then, and the checker decides whether everybody has seen one history.
@Suite("A change that is held in any call, beside another process", .serialized, .storm)
struct HeldCallTests {
    enum Change: CaseIterable, Sendable {
        case set, remove, setIfAbsent, renew, clear, clearEverything, expire, setAndRemove, saves

        static let ofKeys = [set, remove, setIfAbsent, renew]

        /// Makes the calls, and returns them as they were observed. Values are unique: `value`, and the next one.
        func make(_ cache: DiskCache, caller: Int, value: Int) throws -> [ObservedCall] {
            func observe(
                _ operation: ObservedCall.Operation, _ call: () throws -> ObservedCall.Result
            ) throws -> ObservedCall {
                let begin = SharingSetup.now
                let result = try call()
                return ObservedCall(
                    caller: caller, key: "k", operation, begin: begin, end: SharingSetup.now, result)
            }
            func change(
                _ operation: ObservedCall.Operation, _ call: () throws -> Void
            ) throws -> ObservedCall {
                try observe(operation) {
                    try call()
                    return .none
                }
            }
            func set() throws -> ObservedCall {
                try change(.set(value)) { try cache.setString("\(value)", forKey: "k") }
            }
            func remove() throws -> ObservedCall {
                try observe(.remove) { .wasDone(try cache.removeValue(forKey: "k")) }
            }
            switch self {
            case .set: return [try set()]
            case .remove: return [try remove()]
            case .setIfAbsent:
                return [try observe(.setIfAbsent(value)) { .wasDone(try cache.storeIfAbsent("k", "\(value)")) }]
            case .renew:
                return [try observe(.renew) { .wasDone(try cache.setTimeToLive(.days(9), forKey: "k")) }]
            case .clear: return [try change(.clear) { try cache.removeAll() }]
            case .clearEverything: return [try change(.clear) { try cache.removeAllNamespaces() }]
            case .expire: return [try change(.clear) { try cache.expireAll() }]
            case .setAndRemove: return [try set(), try remove()]
            case .saves:
                let set = try set()
                for number in 0..<2 {
                    try cache.flush()
                    try cache.setString("\(number)", forKey: "l")
                }
                try cache.flush()
                return [set]
            }
        }
    }

    /// Whether every pair is tried, with each call. Takes minutes.
    private static let isComplete = ProcessInfo.processInfo.environment["LARDER_HELD_CALLS"] != nil
    /// How long the other process may take before the held one goes on: it may be waiting for it. Milliseconds. Every
    /// history is right whether it takes longer or not; on a slow machine more calls merely run side by side.
    private static let patience = 4

    @Test("everybody sees one history", arguments: isComplete ? Change.allCases : Change.ofKeys, Change.allCases)
    func held(_ change: Change, beside other: Change) throws {
        for hasValue in [false, true] {
            let step = Self.isComplete ? 1 : 23
            var generator = RunSeed.generator("\(change) \(other) \(hasValue)")
            for call in stride(from: Int.random(in: 1...step, using: &generator), to: .max, by: step) {
                guard try hold(change, in: call, beside: other, hasValue) else { break }
            }
        }
    }

    /// Returns false when the change makes fewer calls.
    private func hold(_ change: Change, in call: Int, beside other: Change, _ hasValue: Bool) throws -> Bool {
        let world = World.shared { $0.entriesPerGroup = 2 }
        world.files.countAccesses()
        let (one, two) = (try world.open(), try world.anotherProcess().open())
        try one.setString("1", forKey: "m")
        if hasValue { try two.setString("1", forKey: "k") }
        let calls = Lock<[ObservedCall]>([])
        let failures = FailureNotes()
        func read(_ caches: [DiskCache]) {
            for (caller, cache) in caches.enumerated() {
                let begin = SharingSetup.now
                let value = cache.string(forKey: "k").flatMap(Int.init)
                let read = ObservedCall(
                    caller: caller, key: "k", .get, begin: begin, end: SharingSetup.now, .value(value))
                calls.withLock { $0.append(read) }
            }
        }
        read([two, one])

        let hold = MemoryFileSystem.Hold()
        let isHeld = Flag()
        world.files.inject { number, _ in
            guard number == call else { return nil }
            isHeld.set()
            return .hold(hold)
        }
        let (isDone, isOtherDone) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        func begin(_ change: Change, _ cache: DiskCache, _ caller: Int, _ done: [DispatchSemaphore]) {
            DispatchQueue.global().async {
                do {
                    let made = try change.make(cache, caller: caller, value: 10 * caller)
                    calls.withLock { $0 += made }
                } catch {
                    failures.add("\(caller): \(error)")
                }
                for semaphore in done { semaphore.signal() }
            }
        }
        // Also at the end, in case that there is no such call.
        begin(change, one, 1, [isDone, hold.reached])
        hold.reached.wait()
        begin(other, two, 2, [isOtherDone])
        let isFree = isOtherDone.wait(timeout: .now() + .milliseconds(Self.patience)) == .success
        // In any case: the call may still come, in the background.
        hold.free.signal()
        isDone.wait()
        if !isFree { isOtherDone.wait() }
        world.files.inject(nil)

        let joined = try world.anotherProcess().open()
        read([two, one, joined])
        for cache in [joined, one] { try cache.flush() }
        read([joined, two, one])
        world.files.kill()
        read([two, joined])
        for cache in [two, joined] { try cache.close() }
        var alone = world.with(world.files.another())
        alone.configuration.sharing = .exclusive
        let last = try alone.open()
        read([last])
        try last.flush()
        let context: Comment = "\(change), held in call \(call), beside \(other), with a value: \(hasValue)"
        let violations = Linearizability.violations(
            in: calls.withLock { $0 }, initial: hasValue ? ["k": 1] : [:])
        #expect(violations.isEmpty, "\(context): \(violations)")
        #expect(failures.all == [], context)
        #expect(try last.verify().isClean, context)
        last.checkInvariants(alone, settled: true)
        return isHeld.isSet
    }
}
