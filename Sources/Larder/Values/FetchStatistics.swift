/// What fetching through a cache has done.
public struct FetchStatistics: Hashable, Sendable {
    /// Fetches begun.
    public var begun = 0
    /// Those that failed, or took longer than their own timeout. One that is cancelled because nobody waits any more has not.
    public var failed = 0
    /// Calls that waited for a fetch that another call had begun.
    public var joined = 0
    /// Calls that were answered with a stale value.
    public var staleAnswers = 0
}
