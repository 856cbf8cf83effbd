/// What a cache counts, whatever it keeps its values in.
struct BackendCounts: Sendable {
    var hits = 0
    var misses = 0
    var fetches = FetchStatistics()
}
