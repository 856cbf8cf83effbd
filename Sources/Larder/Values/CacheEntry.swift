public import Foundation

/// An entry as the index knows it, without its payload.
public struct CacheEntry: Sendable {
    /// The key, as it was given.
    public let key: String
    /// Its namespace; nil: none.
    public let namespace: String?
    /// Payload bytes.
    public let size: Int
    /// When the value was stored.
    public let storedAt: Date
    /// When the entry expires; nil: never.
    public let expiresAt: Date?
    /// The end of the time that the entry is kept, its expiry unless a fetch has stored it: a fetch may answer with or
    /// revalidate an expired value. Nil: for ever.
    public let keptUntil: Date?
    /// Its tags.
    public let tags: [String]
    /// When the value was last read, or else stored. Sweeps and `close()` write it down once it is a minute newer than
    /// on disk, so the next opening may know a use that much older.
    public let lastUsedAt: Date
    /// The metadata stored with the value.
    public let metadata: [String: String]
}
