/// A clock that reads the time from a function.
package struct WallClock: Clock {
    private let read: @Sendable () -> Timestamp

    package init(reading read: @escaping @Sendable () -> Timestamp) {
        self.read = read
    }

    package var now: Timestamp { read() }
}
