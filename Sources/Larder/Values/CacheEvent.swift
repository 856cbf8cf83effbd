/// Something that happened in the cache: a removal with its cause, or a failure.
///
/// Events are delivered on a queue of their own, in order. A handler may call the cache. One that falls more than 1,000
/// events behind misses some, and `CacheStatistics.eventsDropped` counts them.
public struct CacheEvent: Sendable {
    /// What happened.
    public let kind: Kind
    /// The keys concerned; empty for `cleared`, and where a failure concerns none.
    public let keys: [String]
    /// The namespace that the keys belong to; nil: none. Of `cleared`: the one that was; nil: everything, or the tag's entries
    /// without a namespace.
    public let namespace: String?
    /// Of `cleared`: the tag whose entries went; nil: all.
    public let tag: String?
    /// The number of entries concerned. Of a tag that was cleared: 0, it is not known yet.
    public let count: Int
    /// Of `evicted`: the limit that was obeyed.
    public let limit: CacheLimit?
    /// Of a failure: what, where and why.
    public let error: CacheError?

    init(
        _ kind: Kind, keys: [String] = [], namespace: String? = nil, tag: String? = nil, count: Int? = nil,
        limit: CacheLimit? = nil, error: CacheError? = nil
    ) {
        self.kind = kind
        self.keys = keys
        self.namespace = namespace
        self.tag = tag
        self.count = count ?? keys.count
        self.limit = limit
        self.error = error
    }

    /// The kinds of events. More may come.
    public struct Kind: Hashable, Sendable, CustomStringConvertible {
        /// The name of the kind.
        public let description: String

        private init(_ description: String) {
            self.description = description
        }

        /// Entries were dropped because their life was over; many in one event.
        public static let expired = Kind("expired")
        /// A caller removed the entry.
        public static let removed = Kind("removed")
        /// A new value took the place of the entry's.
        public static let replaced = Kind("replaced")
        /// The cache dropped the entry to obey a limit.
        public static let evicted = Kind("evicted")
        /// The entry was dropped because what was on disk was proven damaged.
        public static let corrupt = Kind("corrupt")
        /// The entry was dropped because its file was gone.
        public static let lost = Kind("lost")
        /// A caller removed everything, or all of one namespace or tag.
        public static let cleared = Kind("cleared")
        /// After an unclean close, the entry was found again by its file.
        public static let adopted = Kind("adopted")
        /// The directory was deleted or replaced while open, and opened again.
        public static let reopened = Kind("reopened")
        /// A fetch has failed; its callers got its error, or a stale value.
        public static let fetchFailed = Kind("fetchFailed")
        /// Something could not be done; the caller's work went on, or got the same error thrown.
        public static let failed = Kind("failed")
    }
}
