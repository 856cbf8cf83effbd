import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import Testing

@Suite("Queues whose callers block")
struct QueueTests {
    private struct Failure: Error, Equatable {}

    @Test("blocks of a concurrent queue run concurrently: two can wait for each other")
    func together() {
        let queue = ConcurrentQueue()
        let first = DispatchSemaphore(value: 0)
        let second = DispatchSemaphore(value: 0)
        let (mine, other) = ([first, second], [second, first])
        let met = Lock(0)
        let done = DispatchGroup()
        // Real threads: on one core, Dispatch may run one iteration after the other.
        for thread in 0..<2 {
            done.enter()
            Thread.detachNewThread {
                queue.run {
                    mine[thread].signal()
                    if other[thread].wait(timeout: .hang) == .success { met.withLock { $0 += 1 } }
                }
                done.leave()
            }
        }
        done.wait()
        #expect(met.withLock { $0 } == 2)
    }

    @Test("a barrier runs alone, among many threads")
    func alone() {
        final class Unprotected: @unchecked Sendable {
            var value = 0
        }
        let queue = ConcurrentQueue()
        let shared = Unprotected()
        let inside = Lock(0)
        let wrong = Lock(0)
        DispatchQueue.concurrentPerform(iterations: 8) { thread in
            for step in 0..<300 {
                if step % 3 == 0 {
                    queue.runAlone {
                        if inside.withLock({ $0 }) != 0 { wrong.withLock { $0 += 1 } }
                        let next = shared.value + 1
                        // A block that runs during a barrier could see this.
                        shared.value = -1
                        if inside.withLock({ $0 }) != 0 { wrong.withLock { $0 += 1 } }
                        shared.value = next
                    }
                } else {
                    queue.run {
                        inside.withLock { $0 += 1 }
                        if shared.value < 0 { wrong.withLock { $0 += 1 } }
                        inside.withLock { $0 -= 1 }
                    }
                }
            }
        }
        #expect(wrong.withLock { $0 } == 0 && shared.value == 800)
    }

    @Test("a barrier gets its turn even under a continuous stream of readers")
    func notStarved() {
        let queue = ConcurrentQueue()
        let isDone = Flag()
        let rounds = Lock(0)
        let (begun, done) = (DispatchSemaphore(value: 0), DispatchGroup())
        // Real threads: if the readers had the only one, the barriers would never begin.
        for _ in 0..<2 {
            done.enter()
            Thread.detachNewThread {
                queue.run {}
                begun.signal()
                while !isDone.isSet { queue.run { rounds.withLock { $0 += 1 } } }
                done.leave()
            }
        }
        for _ in 0..<2 { begun.wait() }
        for _ in 0..<100 { queue.runAlone {} }
        isDone.set()
        done.wait()
    }

    @Test("a serial queue runs one block at a time; all queues pass on results and errors")
    func serial() {
        let (serial, concurrent) = (SerialQueue(), ConcurrentQueue())
        final class Unprotected: @unchecked Sendable {
            var value = 0
        }
        let shared = Unprotected()
        DispatchQueue.concurrentPerform(iterations: 4) { _ in
            for _ in 0..<1_000 { serial.run { shared.value += 1 } }
        }
        #expect(serial.run { shared.value } == 4_000)
        #expect(concurrent.run { 1 } + concurrent.runAlone { 2 } == 3)
        #expect(throws: Failure.self) { try serial.run { throw Failure() } }
        #expect(throws: Failure.self) { try concurrent.run { throw Failure() } }
        #expect(throws: Failure.self) { try concurrent.runAlone { throw Failure() } }
        // The queues are free again.
        #expect(concurrent.runAlone { serial.run { true } })
    }
}
