import LarderFiles

/// What there is for a key.
enum Freshness: Equatable {
    case missing
    case fresh(MemoryLife)
    /// A value that has expired; whether calls may be answered with it.
    case stale(expires: Timestamp, isAnswerable: Bool)
    /// It is known that there is no value.
    case absent
}
