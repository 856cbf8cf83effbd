import Dispatch
import LarderTestSupport
import LarderTesting
import Testing

@testable import LarderFiles

@Suite("Timers that can be cancelled")
struct TimerQueueTests {
    // Not async: it needs no thread of the pool.
    @Test("work runs after its delay; cancelled work does not run")
    func runs() {
        let queue = TimerQueue()
        let log = Lock<[String]>([])
        let done = DispatchSemaphore(value: 0)
        // On a slow machine its time may come before it is cancelled. Then another one has more time.
        var (delay, isInTime) = (5, false)
        while !isInTime {
            let name = "cancelled, \(delay) ms"
            let timer = queue.schedule(after: .milliseconds(delay)) { log.withLock { $0.append(name) } }
            timer.cancel()
            isInTime = DispatchTime.now().uptimeNanoseconds < timer.deadline
            if !isInTime { delay *= 2 }
        }
        for (name, delay) in [("later", delay + 15), ("now", 0), ("before", -1000)] {
            queue.schedule(after: .milliseconds(delay)) {
                log.withLock { $0.append(name) }
                done.signal()
            }
        }
        for _ in 0..<3 { #expect(done.wait(timeout: .hang) == .success) }
        let names = log.withLock { $0 }
        #expect(names.contains("later") && names.contains("now") && names.contains("before"))
        #expect(!names.contains("cancelled, \(delay) ms"))
        #expect(queue.count == 0)
    }

    @Test("a cancelled timer releases its work at once, and leaves the heap")
    func releases() {
        final class Witness: Sendable {}
        let queue = TimerQueue()
        weak var released: Witness?
        var timers: [ScheduledTimer] = []
        for number in 0..<1000 {
            let witness = Witness()
            released = witness
            timers.append(queue.schedule(after: .seconds(300 + number % 7)) { _ = witness })
        }
        #expect(queue.count == 1000)
        for timer in timers { timer.cancel() }
        timers[0].cancel()
        #expect(queue.count == 0)
        #expect(released == nil)
        // Dispatch would take such a deadline for another clock's, and fire again and again.
        for delay in [Duration.seconds(Int64.max), .seconds(Int64.max - 1)] {
            let timer = queue.schedule(after: delay) {}
            #expect(timer.deadline < 1 << 62 && timer.deadline > 1 << 61)
        }
        #expect(queue.count == 2)
    }

    @Test("the earliest timer stays first through insertions and removals", arguments: [1, 2, 3] as [UInt64])
    func heap(_ seed: UInt64) {
        print("timer heap: seed \(seed)")
        var generator = SeededGenerator(seed: seed)
        let queue = TimerQueue()
        var heap = TimerHeap()
        var model: [ScheduledTimer] = []
        for _ in 0..<1000 {
            if model.isEmpty || Int.random(in: 0..<5, using: &generator) < 3 {
                let timer = ScheduledTimer(.random(in: 0..<100, using: &generator), {}, in: queue)
                heap.insert(timer)
                model.append(timer)
            } else {
                let timer =
                    Bool.random(using: &generator) ? heap.first! : model.randomElement(using: &generator)!
                model.removeAll { $0 === timer }
                #expect(heap.remove(timer) != nil)
                #expect(heap.remove(timer) == nil)
            }
            #expect(heap.first?.deadline == model.map(\.deadline).min())
            #expect(heap.count == model.count)
        }
    }
}
