/// Counts of the use of a remote tier.
public struct RemoteStatistics: Hashable, Sendable {
    /// Reads that brought a value from the remote tier.
    public var hits = 0
    /// Reads that it answered without one. A read that was not asked, because the server could not be, is none.
    public var misses = 0
    /// Local copies that it has confirmed.
    public var confirmations = 0
    /// Calls that failed, or whose callers waited for longer than the timeout.
    public var failures = 0
    /// Answers that came after the timeout, for later reads.
    public var late = 0
    /// Changes that it has taken.
    public var changes = 0
    /// Changes that it has refused, because it had a newer one.
    public var refusals = 0
    /// Changes that were dropped, because they waited too long or were too many.
    public var dropped = 0
    /// Answers that were not what this version of Larder writes.
    public var malformed = 0
    /// Notices of changes by other machines.
    public var notices = 0
    /// Changes that wait now.
    public var waiting = 0
}

extension RemoteStatistics: CustomStringConvertible {
    /// Hits and misses, and every other count that is not 0.
    public var description: String {
        let counts = Wording.counts([
            "confirmed": confirmations, "failed": failures, "late": late, "changed": changes, "refused": refusals,
            "dropped": dropped, "malformed": malformed, "noticed": notices, "waiting": waiting,
        ])
        let reads = [Wording.number(hits, "hit", "hits"), Wording.number(misses, "miss", "misses")]
        return (reads + counts).joined(separator: ", ")
    }
}
