public import LarderFoundation

/// A description of an entry: everything but its payload.
public struct CacheEntry: Sendable {
    /// The key, as it was given.
    public let key: String
    /// Its namespace; nil: none.
    public let namespace: String?
    /// Bytes of the value as it was stored; in memory alone, its cost.
    public let payloadSize: Int
    /// Bytes that the entry takes on disk, estimated: the payload and its record, in blocks of 4 KiB, or its part of a
    /// segment. In memory alone 0.
    public let allocatedSize: Int
    /// When the value was stored.
    public let storedAt: Date
    /// When the entry expires; nil: never.
    public let expiresAt: Date?
    /// The time until which the entry is kept: its expiry, or later if a fetch stored it, or a call with `keepStale`
    /// such as ``Cache/setValue(_:forKey:ttl:keepStale:metadata:tags:toDisk:)``, because a fetch may return or
    /// revalidate an expired value. Nil: forever.
    public let keptUntil: Date?
    /// Its tags.
    public let tags: [String]
    /// When the value was last read, or else stored. Sweeps and `close()` save it once it is a minute newer than on
    /// disk, so after the next opening it may be up to a minute too old.
    public let lastUsedAt: Date
    /// The metadata stored with the value.
    public let metadata: [String: String]
}

extension CacheEntry: CustomStringConvertible {
    /// The key, the size, the dates, and all other properties that are set.
    public var description: String {
        var text = Wording.quoted(key)
        if let namespace { text += " in namespace \(Wording.quoted(namespace))" }
        text += ", \(Wording.number(payloadSize, "byte", "bytes")), stored \(Wording.date(storedAt))"
        text += ", \(Wording.expiry(expiresAt))"
        if keptUntil != expiresAt { text += ", kept " + (keptUntil.map { "until \(Wording.date($0))" } ?? "forever") }
        if !tags.isEmpty { text += ", tagged \(Wording.list(tags))" }
        if !metadata.isEmpty { text += ", \(Wording.metadata(metadata))" }
        return text
    }
}
