/// How many hits a newcomer needs to replace what a cache has kept for long: learned from the misses that another
/// decision would have avoided.
///
/// A miss for a key that was refused not long ago says that newcomers should have been let in; one for a key that was
/// given up for a newcomer says the opposite, and counts twice: where all keys come again in a circle, both are equally
/// frequent, and it is right to refuse.
@usableFromInline
struct Regrets: Sendable {
    /// From -1, where everybody is let in, to 1.
    private(set) var bias = -0.2
    private(set) var history = EvictionHistory()
    /// How many refused keys have come back, until `takeReturns`.
    private(set) var returns = 0

    @usableFromInline
    init() {}

    /// Those of an earlier session; nil for an impossible bias.
    init?(bias: Double, _ history: EvictionHistory) {
        guard abs(bias) <= 1 else { return nil }
        self.bias = bias
        self.history = history
    }

    /// Notes that a key is stored that was missing. Returns its first hits: one if it was evicted not long ago.
    @usableFromInline
    mutating func noteStored(_ fingerprint: UInt32) -> UInt8 {
        guard let way = history.take(fingerprint) else { return 0 }
        // In a very small cache one mistake must not decide alone.
        let step = 2.5 / Double(max(16, history.capacity))
        if way == .refused, returns < history.capacity { returns += 1 }
        bias = way == .refused ? max(-1, bias - step) : min(1, bias + 2 * step)
        return 1
    }

    /// Notes that a key is evicted. `entries`: how many there are.
    @usableFromInline
    mutating func noteEvicted(_ fingerprint: UInt32, _ way: EvictionHistory.Way, entries: Int) {
        history.fit(entries)
        history.add(fingerprint, way)
    }

    /// Gives back the memory of a cache that has few entries left.
    @usableFromInline
    mutating func shrink(to entries: Int) {
        if entries < history.capacity / 4 { history = EvictionHistory() }
    }

    mutating func takeReturns(_ count: Int) { returns -= count }

    /// A newcomer needs more hits than this to replace a value without hits.
    @usableFromInline var threshold: Int {
        if bias < -0.3 { return -1 }
        return bias < 0.2 ? 0 : 1
    }
}
