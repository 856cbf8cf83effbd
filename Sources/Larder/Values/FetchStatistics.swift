/// What fetching through a cache has done.
public struct FetchStatistics: Hashable, Sendable {
    /// Fetches begun.
    public var begun = 0
    /// Those that failed, timed out included.
    public var failed = 0
    /// Calls that waited for a fetch that another call had begun.
    public var joined = 0
    /// Calls that were answered with a stale value.
    public var staleAnswers = 0
}
