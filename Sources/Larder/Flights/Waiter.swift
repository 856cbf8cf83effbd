/// A place in a flight.
struct Waiter: Sendable {
    let flight: Flight
    let key: Key
    let number: Int

    /// Takes one.
    init(in flight: Flight, for key: Key) {
        self.init(flight: flight, key: key, number: flight.join(key))
    }

    init(flight: Flight, key: Key, number: Int) {
        self.flight = flight
        self.key = key
        self.number = number
    }

    /// Waits for what arrives, or for the seat to be left.
    func wait() async -> FetchOutcome { await flight.wait(in: number) }
}
