/// Something that happened in the cache: a removal with its cause, or a failure.
///
/// Events are delivered in order, on a queue of their own. A handler may call the cache. A handler that lags by more
/// than 1,000 events misses some, and `CacheStatistics.eventsDropped` counts them.
public struct CacheEvent: Sendable {
    /// The kind of event.
    public let kind: Kind
    /// The keys concerned; empty for `cleared`, for `invalidated` of a namespace or a tag, and for a failure that
    /// concerns none.
    public let keys: [String]
    /// The namespace of the keys, or the one that was cleared or expired; nil: the part without a namespace, or
    /// everything if `isOfAllNamespaces`.
    public let namespace: String?
    /// For `cleared` and `invalidated`: true when everything was removed or expired, in all namespaces.
    public let isOfAllNamespaces: Bool
    /// For `cleared` and `invalidated`: the tag whose entries were removed or expired; nil: all entries, or those of
    /// `keys`.
    public let tag: String?
    /// The number of entries concerned; 0 for a cleared tag, and for an expired namespace or tag, as it is not known
    /// yet.
    public let count: Int
    /// For `evicted`: the limit that was exceeded.
    public let limit: CacheLimit?
    /// For a hit or a stale answer: the tier that had the value.
    public internal(set) var source: ValueSource?
    /// The cache whose reads are reported: only its listeners get the event. Nil: all listeners do.
    var reader: ReadReporting?
    /// For a failure: the error.
    public let error: CacheError?

    init(
        _ kind: Kind, keys: [String] = [], namespace: String? = nil, tag: String? = nil, count: Int? = nil,
        limit: CacheLimit? = nil, error: CacheError? = nil, isOfAllNamespaces: Bool = false
    ) {
        self.kind = kind
        self.isOfAllNamespaces = isOfAllNamespaces
        self.keys = keys
        self.namespace = namespace
        self.tag = tag
        self.count = count ?? keys.count
        self.limit = limit
        self.error = error
    }

    /// The kinds of events. More may be added.
    public struct Kind: Hashable, Sendable, CustomStringConvertible {
        /// The name of the kind.
        public let description: String

        private init(_ description: String) {
            self.description = description
        }

        /// Entries were removed because they had expired; many in one event.
        public static let expired = Kind("expired")
        /// A caller expired the entry, or all entries of one namespace or tag, before their time.
        public static let invalidated = Kind("invalidated")
        /// A caller removed the entry.
        public static let removed = Kind("removed")
        /// A value was stored on disk for a key of which nothing was known, by this process: a caller, a fetch, or a
        /// read that has brought it from a remote tier.
        public static let stored = Kind("stored")
        /// A new value replaced the entry's value, fresh or expired.
        public static let replaced = Kind("replaced")
        /// The cache removed the entry to obey a limit.
        public static let evicted = Kind("evicted")
        /// The entry was removed because its file was proven damaged.
        public static let corrupt = Kind("corrupt")
        /// The entry was removed because its file was missing.
        public static let lost = Kind("lost")
        /// A caller removed everything, one namespace, the part without a namespace, or one tag.
        public static let cleared = Kind("cleared")
        /// Another process or, with a remote tier, another machine stored, replaced, removed or renewed the entry, or
        /// removed or expired everything, one namespace, the part without a namespace, or one tag.
        public static let changedElsewhere = Kind("changedElsewhere")
        /// After an unclean close, the entry was found again by its file.
        public static let adopted = Kind("adopted")
        /// The cache was opened by its name and has no limit on its size: Larder 0.1.0 has created it, or it was
        /// created by its directory or with a limit of its own. Posted once in the life of the directory.
        public static let unlimited = Kind("unlimited")
        /// The directory was deleted or replaced while open, and opened again.
        public static let reopened = Kind("reopened")
        /// A read returned a value, or the knowledge that there is none. Only with `Cache.Configuration.reportsReads`,
        /// as are the next three kinds.
        public static let hit = Kind("hit")
        /// A read found no value.
        public static let missed = Kind("missed")
        /// A fetch returned a value, or reported that there is none.
        public static let fetched = Kind("fetched")
        /// A call returned a stale value.
        public static let answeredStale = Kind("answeredStale")
        /// A fetch failed; its callers got its error or a stale value.
        public static let fetchFailed = Kind("fetchFailed")
        /// The remote tier answers, for the first time or again.
        public static let remoteTierConnected = Kind("remoteTierConnected")
        /// The remote tier cannot be reached, or fails again and again; the cache goes on without it.
        public static let remoteTierLost = Kind("remoteTierLost")
        /// The remote tier answers too late again and again, so reads do not wait for it, but find its answers later.
        public static let remoteTierSlow = Kind("remoteTierSlow")
        /// So many changes were not sent to the remote tier, for the reason that the error gives.
        public static let remoteChangesDropped = Kind("remoteChangesDropped")
        /// An operation failed; its caller continued without it, or received the same error.
        public static let failed = Kind("failed")
    }
}

extension CacheEvent: CustomStringConvertible {
    /// The kind, the first of the keys or their number, their namespace or tier, and the limit or the error.
    public var description: String {
        var text = kind.description
        if !keys.isEmpty {
            text += " \(Wording.list(keys))"
        } else if count > 0 {
            text += " \(Wording.number(count, "entry", "entries"))"
        }
        if let tag { text += " tagged \(Wording.quoted(tag))" }
        if isOfAllNamespaces { text += " in all namespaces" }
        if let namespace { text += " in namespace \(Wording.quoted(namespace))" }
        if let source { text += " from \(source)" }
        if let limit { text += " for \(limit)" }
        if let error { text += ": \(error)" }
        return text
    }
}

/// The identity of a cache whose reads are reported.
final class ReadReporting: Sendable {}

/// The limit that an entry was evicted to obey.
public struct CacheLimit: Hashable, Sendable, CustomStringConvertible {
    /// The name of the limit.
    public let description: String

    private init(_ description: String) {
        self.description = description
    }

    /// `countLimit`, or `trim(toCount:)`.
    public static let count = CacheLimit("count")
    /// `sizeLimit`, or `trim(toSize:)`.
    public static let size = CacheLimit("size")
    /// `ageLimit`, or `trim(toAge:)`.
    public static let age = CacheLimit("age")
    /// In memory: `costLimit`, or `trim(toCost:)`.
    public static let cost = CacheLimit("cost")
    /// `minimumFreeSpace`, or `trim(toFreeSpace:)`.
    public static let freeSpace = CacheLimit("freeSpace")
}
