/// The pauses of a thread that waits for another process, which cannot wake it: short at first, then longer.
package struct Backoff {
    private var pause: UInt32 = 1

    package init() {}

    /// The longest pause. Microseconds.
    package static let longest: UInt32 = 1_000

    package mutating func wait() {
        if let thread = Simulation.thread {
            _ = thread.wait(until: { false }, orMicroseconds: UInt64(pause))
        } else {
            Platform.pause(microseconds: pause)
        }
        pause = min(pause * 2, Self.longest)
    }

    /// Returns once `isDone` returns true, or false after about this many milliseconds.
    package static func wait<Failure: Error>(
        milliseconds: Int, until isDone: () throws(Failure) -> Bool
    ) throws(Failure) -> Bool {
        var backoff = Backoff()
        for _ in 0..<milliseconds + 10 {
            if try isDone() { return true }
            backoff.wait()
        }
        return try isDone()
    }
}
