import Dispatch
import LarderFiles

/// Slows sets down while they are faster than the cleaner: each waits for a step of it, for a few milliseconds at most,
/// however long the rest takes. They wait one after another, so more threads do not store more.
final class CleaningPace: Sendable {
    /// In nanoseconds: at least, and for each byte of a value.
    private static let (wait, waitPerByte) = (1_000_000, 4)

    private let turn = SerialQueue()
    private let isAwaited = Flag()
    private let steps = DispatchSemaphore(value: 0)

    /// Returns when the cleaner has taken a step, or after a time that depends on the size of values.
    func wait(after bytes: Int) {
        turn.run {
            isAwaited.set()
            _ = steps.wait(timeout: .now() + .nanoseconds(max(Self.wait, bytes * Self.waitPerByte)))
            isAwaited.set(false)
        }
    }

    /// Notes a step of the cleaner.
    func step() {
        guard isAwaited.isSet else { return }
        isAwaited.set(false)
        steps.signal()
    }
}
