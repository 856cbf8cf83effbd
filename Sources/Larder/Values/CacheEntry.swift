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

extension CacheEntry: CustomStringConvertible {
    /// The key, the size and the dates, and whatever else the entry has.
    public var description: String {
        var text = Wording.quoted(key)
        if let namespace { text += " in namespace \(Wording.quoted(namespace))" }
        text += ", \(Wording.number(size, "byte", "bytes")), stored \(Wording.date(storedAt))"
        text += ", \(Wording.expiry(expiresAt))"
        if keptUntil != expiresAt { text += ", kept " + (keptUntil.map { "until \(Wording.date($0))" } ?? "for ever") }
        if !tags.isEmpty { text += ", tagged \(Wording.list(tags))" }
        if !metadata.isEmpty { text += ", \(Wording.metadata(metadata))" }
        return text
    }
}
