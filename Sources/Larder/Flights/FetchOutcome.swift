/// How waiting for a fetch ends.
enum FetchOutcome: Sendable {
    /// A `Lookup` of the type of the flight.
    case found(any Sendable)
    /// There is no value, as the fetch says, or the cache.
    case absent(isFetched: Bool)
    /// The fetch, which was for several keys, says nothing about this one.
    case nothing
    case failed(any Error)
    /// The caller was cancelled.
    case left
    /// The caller does not want to wait any longer.
    case late
}
