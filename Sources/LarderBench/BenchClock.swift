import Foundation
import LarderFiles

/// A clock that does not advance until it is set.
final class BenchClock: Sendable {
    private let time = Lock(Date())

    var now: Date { time.withLock { $0 } }

    func advance(by seconds: TimeInterval) {
        time.withLock { $0 += seconds }
    }
}
