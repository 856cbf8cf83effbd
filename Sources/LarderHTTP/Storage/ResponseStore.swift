import Larder
import LarderFiles
import LarderFoundation

/// The stored responses: an entry for each URL and variant, tagged by the URL. The payload is the body, and the head is
/// its metadata. An entry lives as long as its response may be used or validated; the policy alone decides whether it is
/// fresh.
struct ResponseStore: Sendable {
    /// A stored response that a request selects.
    struct Found: Sendable {
        let key: String
        var head: StoredHead
        let body: Data
    }

    /// The outcome of a search for a request.
    enum Answer: Sendable {
        case nothing
        /// Only variants that other requests select.
        case otherVariants
        case response(Found)
    }

    let cache: Cache<Data>
    let disk: DiskCache

    init(disk: DiskCache, namespace: String, memory: MemoryCache<String, Data>.Configuration?) {
        cache = Cache(disk: disk, namespace: namespace, coder: .data, configuration: .init(memory: memory))
        self.disk = disk.namespace(namespace)
    }

    /// Returns the response that a request selects, the newest of several (RFC 9111, section 4.1).
    func find(_ key: CacheKey, for request: RequestHead) async -> Answer {
        guard let lookup = await cache.lookup(forKey: key.base) else { return .nothing }
        if let head = StoredHead(metadata: lookup.metadata) {
            return .response(Found(key.base, head, lookup))
        }
        guard let note = VaryNote(metadata: lookup.metadata) else { return .nothing }
        var newest: Found?
        for names in note.lists {
            guard let key = key.variant(Variant(names: names, for: request.fields)),
                let lookup = await cache.lookup(forKey: key), let head = StoredHead(metadata: lookup.metadata)
            else { continue }
            if newest.map({ $0.head.received < head.received }) ?? true { newest = Found(key, head, lookup) }
        }
        return newest.map(Answer.response) ?? .otherVariants
    }

    /// Stores a response under the variant that its request selects, and returns the key of its entry; nil when it could
    /// not be stored. A cache whose disk fails answers all the same; the events of the disk report the failure.
    /// `retention`: milliseconds for which it is kept.
    func store(
        _ head: StoredHead, _ body: Content, _ key: CacheKey, for request: RequestHead, retention: Int64,
        at now: Timestamp
    ) async -> String? {
        let variant = Variant(head.fields, for: request.fields)
        guard let entryKey = key.variant(variant) else { return nil }
        let ttl = TimeToLive.milliseconds(Double(retention))
        let now = Date(timeIntervalSince1970: Double(now.milliseconds) / 1000)
        do {
            switch body {
            case .data(let data):
                try await cache.setValue(data, forKey: entryKey, ttl: ttl, metadata: head.metadata, tags: [key.url])
            case .file(let file):
                let disk = disk
                try await BlockingWork.run {
                    try disk.copyFile(
                        at: file.url, forKey: entryKey, ttl: ttl, metadata: head.metadata, tags: [key.url])
                }
            }
            if !variant.names.isEmpty { try await note(variant.names, key, ttl, retention, now) }
            return entryKey
        } catch {
            return nil
        }
    }

    /// Notes that responses of a URL vary by these names. A note lost to another request costs a miss.
    private func note(_ names: [String], _ key: CacheKey, _ ttl: TimeToLive, _ retention: Int64, _ now: Date)
        async throws
    {
        let known = await cache.lookup(forKey: key.base)
        let old = known.flatMap { VaryNote(metadata: $0.metadata) }
        let note = old?.adding(names) ?? VaryNote(names)
        // It lives as long as the longest-lived variant.
        let left = old == nil ? 0 : known?.expiresAt.map { $0.timeIntervalSince(now) * 1000 } ?? 0
        if note == old, left >= Double(retention) { return }
        let life = left < Double(retention) ? ttl : .milliseconds(left)
        try await cache.setValue(Data(), forKey: key.base, ttl: life, metadata: note.metadata, tags: [key.url])
    }

    func remove(_ key: String) async {
        _ = try? await cache.removeValue(forKey: key)
    }

    /// Removes every variant of a URL, in every partition.
    func removeAll(_ key: CacheKey) async {
        try? await cache.removeAll(tagged: key.url)
    }
}

extension ResponseStore.Found {
    fileprivate init(_ key: String, _ head: StoredHead, _ lookup: Lookup<Data>) {
        self.init(key: key, head: head, body: lookup.value)
    }
}
