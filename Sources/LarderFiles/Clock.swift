/// The world's time: it tells the time *and* runs work later.
///
/// The debounced save and the sweep go through it, so a test drives them by hand and nothing in the suite sleeps.
package protocol Clock: Sendable {
    /// The wall-clock time.
    var now: Timestamp { get }

    /// Runs `work` once, no earlier than after `delay`, on a thread of the clock's choice.
    func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void)
}
