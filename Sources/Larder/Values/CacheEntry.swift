public import Foundation

/// What the cache knows about an entry without reading its payload.
public struct CacheEntry: Sendable {
    /// The key, as it was given.
    public let key: String
    /// The namespace that it belongs to; nil: none.
    public let namespace: String?
    /// Payload bytes.
    public let size: Int
    /// When the value was stored.
    public let storedAt: Date
    /// When the entry expires; nil: never.
    public let expiresAt: Date?
    /// Until when the entry is kept, for a fetch that may answer or revalidate what has expired; nil: for ever. Its expiry, unless a
    /// fetch has stored it.
    public let keptUntil: Date?
    /// The tags that it was stored with.
    public let tags: [String]
    /// When the value was last read, or else stored. Written down when it is a minute newer than the disk knows, by the
    /// sweep and the closing: the next opening may know one that much older.
    public let lastUsedAt: Date
    /// What was stored beside the value.
    public let metadata: [String: String]
}
