import Foundation
import LarderFiles

/// A time that stands still until it is moved.
final class BenchClock: Sendable {
    private let time = Lock(Date())

    var now: Date { time.withLock { $0 } }

    func advance(by seconds: TimeInterval) {
        time.withLock { $0 += seconds }
    }
}
