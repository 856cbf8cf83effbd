/// Which values a full cache gives up.
public enum EvictionPolicy: Hashable, Sendable {
    /// Keeps what is used again and again, and learns from its own mistakes how quickly newcomers may replace it. One
    /// pass over many values, or a loop over a few more than there is room for, does not empty the cache.
    ///
    /// The articles <doc:MemoryLimits> and <doc:Limits> describe it, and name the patterns for which it is worse.
    case adaptive

    /// Gives up the value that was stored or read longest ago, exactly.
    case leastRecentlyUsed
}

extension EvictionPolicy: CustomStringConvertible {
    /// The name of the case.
    public var description: String { self == .adaptive ? "adaptive" : "leastRecentlyUsed" }
}
