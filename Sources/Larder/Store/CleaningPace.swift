import Dispatch
import LarderFiles

/// Slows sets down while they are faster than the cleaner: each waits for a step of it, or for some milliseconds. They
/// wait one after another, so more threads do not store more.
final class CleaningPace: Sendable {
    /// In nanoseconds: at least, and for each byte of a value.
    private static let (wait, waitPerByte) = (1_000_000, 4)
    /// After so many waits in vain nobody waits until the next step: the cleaner may be another process, which is
    /// stopped.
    private static let mostInVain = 64

    private let turn = SerialQueue()
    private let isAwaited = Flag()
    private let steps = Signal()
    private let inVain = Lock(0)
    /// For async callers. A serial queue has a thread of its own.
    private let queue: any WorkQueue

    init(_ scheduler: any Scheduler) {
        queue = scheduler.queue("larder.pace", .unspecified)
    }

    /// False when the cleaner has taken no step for long.
    var isWorthwhile: Bool { inVain.withLock { $0 < Self.mostInVain } }

    /// Returns when the cleaner has taken a step, or after a time that depends on the size of values.
    func wait(after bytes: Int) {
        turn.run {
            isAwaited.set()
            let nanoseconds = max(Self.wait, bytes * Self.waitPerByte)
            if !steps.wait(nanoseconds: nanoseconds) { inVain.withLock { $0 += 1 } }
            isAwaited.set(false)
        }
    }

    /// The same for an async caller, which blocks no thread.
    func pause(after bytes: Int) async {
        await withCheckedContinuation { continuation in
            queue.enqueue {
                if self.isWorthwhile { self.wait(after: bytes) }
                continuation.resume()
            }
        }
    }

    /// Notes a step of the cleaner.
    func step() {
        inVain.withLock { $0 = 0 }
        guard isAwaited.isSet else { return }
        isAwaited.set(false)
        steps.send()
    }
}
