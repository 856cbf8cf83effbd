public import Larder
public import LarderFoundation

extension HTTPCache {
    /// The settings of an HTTP cache.
    public struct Configuration: Sendable {
        /// The disk tier, where the cache opens the directory itself. Default: at most 512 MiB of bodies.
        public var disk = DiskCache.Configuration(sizeLimit: 512 << 20)
        /// The memory tier; nil: none. Costs are bytes. Default: at most 32 MiB, and 4 MiB for each response.
        public var memory: MemoryCache<String, Data>.Configuration? = .init(
            costLimit: 32 << 20, entryCostLimit: 4 << 20, cost: { $0.count + 512 })
        /// Fields that each request gets before a variant is selected, unless it has them. Default: `Accept: */*`,
        /// `Accept-Encoding: gzip`, `Accept-Language: *` and a `User-Agent`.
        public var requestFields = [
            HTTPField("Accept", "*/*"), HTTPField("Accept-Encoding", "gzip"), HTTPField("Accept-Language", "*"),
            HTTPField("User-Agent", "Larder"),
        ]
        /// Whether redirects are followed, up to twenty, each stored on its own; otherwise the redirecting response is
        /// the answer. Default: true.
        public var followsRedirects = true
        /// How long after its freshness a response may be the answer when the server cannot be reached, unless it
        /// forbids that (`must-revalidate`, `no-cache`). Zero: only as its `stale-if-error` says. Default: a week.
        public var staleIfUnreachable: Duration = .days(7)
        /// How long after its freshness a response is kept at least, to be validated. It is kept as long as it may be
        /// the answer, too: ``staleIfUnreachable`` has to be zero as well for stale responses to go at once. Default: a
        /// week.
        public var keepStale: Duration = .days(7)
        /// The maximum number of fields of a response; one with more is not stored. Default: 256.
        public var maximumFieldCount = 256
        /// The maximum number of bytes of a response's fields; one with more is not stored. At most 512 KiB, as an
        /// entry's record has room for. Default: 64 KiB.
        public var maximumFieldSize = 64 << 10
        /// Bytes of a body that are kept in memory while it arrives. A larger one is written to a temporary file, and
        /// copied into the cache from there. Where that file cannot be written, `data(for:)` keeps the body in memory,
        /// and `download(for:)` fails. A process that is killed leaves the file to the system. Default: 1 MiB.
        public var spoolLimit = 1 << 20
        /// Called after each request, once for each hop of a redirect and for each validation in the background, also
        /// after one that has failed; on the thread that answered it. Default: nil.
        public var onEvent: (@Sendable (HTTPCacheEvent) -> Void)?

        /// Creates a configuration with the documented defaults.
        public init() {}

        var policy: HTTPCachePolicy {
            var policy = HTTPCachePolicy()
            policy.maximumFieldCount = maximumFieldCount
            policy.maximumFieldSize = min(maximumFieldSize, 512 << 10)
            policy.staleIfUnreachable = staleIfUnreachable
            policy.keepStale = keepStale
            return policy
        }
    }
}

extension HTTPCache.Configuration: CustomStringConvertible {
    /// The settings by name, without those of the tiers.
    public var description: String {
        [
            "requestFields: \(requestFields.map(\.name).joined(separator: " "))",
            "followsRedirects: \(followsRedirects)", "staleIfUnreachable: \(staleIfUnreachable)",
            "keepStale: \(keepStale)", "maximumFieldCount: \(maximumFieldCount)",
            "maximumFieldSize: \(maximumFieldSize)", "spoolLimit: \(spoolLimit)",
        ].joined(separator: ", ")
    }
}
