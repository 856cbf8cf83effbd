import LarderFiles

/// How what a fetch has brought is to be kept.
struct StoreOptions: Sendable {
    let now: Timestamp
    let life: Life
    /// Nil: as it was.
    var metadata: [String: String]?
    var tags: [Key]
    /// Milliseconds beyond the expiry.
    var keptStale: Int64
    /// Nil: as it was, or else not.
    var mustRevalidate: Bool?
}
