import LarderFiles

/// A value that a fetch may go by.
struct StoredValue<Value: Sendable>: Sendable {
    let value: Value
    let metadata: [String: String]
    let stored: Timestamp
    let life: MemoryLife
    let isAnswerable: Bool
    /// Which tier had it.
    let source: ValueSource
    /// That on disk; nil without a disk tier.
    var entry: IndexEntry?

    /// What a fetch is given of it.
    var cached: CachedValue<Value> {
        let expires = life.expires.milliseconds == Life.unlimited ? nil : life.expires.date
        return CachedValue(value: value, metadata: metadata, storedAt: stored.date, expiresAt: expires)
    }
}
