import LarderFoundation

/// A thread of a simulation, which runs one of its threads at a time.
///
/// Whoever waits says for what, instead of sleeping: the simulation runs other threads meanwhile, in an order that its
/// seed gives.
package protocol SimulatedThread: AnyObject {
    /// Returns once `isReady` has returned true. It is called on any thread, and not again once it has.
    func wait(until isReady: () -> Bool)

    /// The same, but returns false after this simulated time.
    func wait(until isReady: () -> Bool, orMicroseconds limit: UInt64) -> Bool

    func randomNumber() -> UInt64
}

/// Which threads are simulated. Asked only by whoever has to wait, and for random numbers.
package enum Simulation {
    private final class Seat {
        unowned let thread: any SimulatedThread

        init(_ thread: any SimulatedThread) {
            self.thread = thread
        }
    }

    private static let key = {
        var key = pthread_key_t()
        let error = pthread_key_create(&key, nil)
        precondition(error == 0, "no more keys of threads")
        return key
    }()

    /// The simulated thread that is running on this one.
    package static var thread: (any SimulatedThread)? {
        guard let seat = pthread_getspecific(key) else { return nil }
        return Unmanaged<Seat>.fromOpaque(seat).takeUnretainedValue().thread
    }

    /// Random numbers: the system's, or those of the simulation whose thread is running.
    package struct Generator: RandomNumberGenerator {
        package init() {}

        package func next() -> UInt64 {
            if let thread { return thread.randomNumber() }
            var system = SystemRandomNumberGenerator()
            return system.next()
        }
    }

    /// A number from all of its type's.
    package static func randomNumber() -> UInt64 { Generator().next() }

    /// Runs `body` as a simulated thread.
    package static func run(as thread: any SimulatedThread, _ body: () -> Void) {
        let seat = Seat(thread)
        pthread_setspecific(key, Unmanaged.passUnretained(seat).toOpaque())
        withExtendedLifetime(seat, body)
        pthread_setspecific(key, nil)
    }
}
