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
        var head: HTTPResponseHead
        let body: Content
        /// As they are stored, whatever becomes of the head.
        let metadata: [String: String]
    }

    /// The outcome of a search for a request.
    enum Answer: Sendable {
        case nothing
        /// Only variants that other requests select; this one probably that of the key.
        case otherVariants(String?)
        case response(Found)
    }

    let cache: Cache<Data>
    let disk: DiskCache

    init(disk: DiskCache, namespace: String, memory: MemoryCache<String, Data>.Configuration?) {
        cache = Cache(disk: disk, namespace: namespace, coder: .data, configuration: .init(memory: memory))
        self.disk = disk.namespace(namespace)
    }

    /// The form in which a search returns bodies.
    enum Bodies: Sendable {
        case data
        /// Those of more bytes as copies in files.
        case filesAbove(Int)
        /// Empty.
        case none
    }

    /// Returns the response that a request selects, the newest of several (RFC 9111, section 4.1).
    func find(_ key: CacheKey, for request: HTTPRequestHead, bodies: Bodies) async -> Answer {
        guard let (metadata, body) = await load(key.base, bodies) else { return .nothing }
        if let head = HTTPResponseHead(metadata: metadata) {
            return .response(Found(key: key.base, head: head, body: body, metadata: metadata))
        }
        guard let note = VaryNote(metadata: metadata) else { return .nothing }
        var newest: Found?
        for names in note.lists {
            guard let key = key.variant(HTTPVariant(names: names, for: request.fields)),
                let (metadata, body) = await load(key, bodies),
                let head = HTTPResponseHead(metadata: metadata)
            else { continue }
            if newest.map({ $0.head.received < head.received }) ?? true {
                newest = Found(key: key, head: head, body: body, metadata: metadata)
            }
        }
        if let newest { return .response(newest) }
        return .otherVariants(note.lists.first.flatMap { key.variant(HTTPVariant(names: $0, for: request.fields)) })
    }

    private func load(_ key: String, _ bodies: Bodies) async -> (metadata: [String: String], body: Content)? {
        switch bodies {
        case .none: return await cache.entry(forKey: key).map { ($0.metadata, .data(Data())) }
        case .filesAbove(let limit):
            if let entry = await cache.entry(forKey: key), entry.size > limit, let exported = await export(key) {
                return exported
            }
        case .data: break
        }
        return await cache.lookup(forKey: key).map { ($0.metadata, .data($0.value)) }
    }

    /// Copies the body of an entry to a file; nil when that fails.
    private func export(_ key: String) async -> (metadata: [String: String], body: Content)? {
        try? await BlockingWork.run { [disk] in
            var metadata: [String: String] = [:]
            let file = try TemporaryFile { url in
                let entry = try disk.exportEntry(forKey: key, to: url, access: .owner)
                if let entry { metadata = entry.metadata }
                return entry?.size
            }
            return file.map { (metadata, .file($0)) }
        }
    }

    /// Gives a stored response another head of the same variant without writing its body. Returns false when it is no
    /// longer what it was, or the disk fails. `retention`: milliseconds for which it is kept.
    func renew(
        _ found: Found, as head: HTTPResponseHead, _ key: CacheKey, for request: HTTPRequestHead, retention: Int64,
        at now: Timestamp
    ) async -> Bool {
        let variant = HTTPVariant(head.fields, for: request.fields)
        guard key.variant(variant) == found.key, retention > 0 else { return false }
        let ttl = TimeToLive.milliseconds(Double(retention))
        do {
            let isRenewed = try await BlockingWork.run { [disk] in
                try disk.renewValue(forKey: found.key, ttl: ttl, replacing: found.metadata, by: head.metadata)
            }
            if isRenewed, !variant.names.isEmpty { try await note(variant.names, key, ttl, retention, now) }
            return isRenewed
        } catch {
            return false
        }
    }

    /// Stores a response under the variant that its request selects, and returns the key of its entry; nil when it could
    /// not be stored. A cache whose disk fails answers all the same; the events of the disk report the failure.
    /// `retention`: milliseconds for which it is kept.
    func store(
        _ head: HTTPResponseHead, _ body: Content, _ key: CacheKey, for request: HTTPRequestHead, retention: Int64,
        at now: Timestamp
    ) async -> String? {
        let variant = HTTPVariant(head.fields, for: request.fields)
        // Without time to keep it in, storing would be removing.
        guard let entryKey = key.variant(variant), retention > 0 else { return nil }
        let ttl = TimeToLive.milliseconds(Double(retention))
        do {
            switch body {
            case .data(let data):
                try await cache.setValue(data, forKey: entryKey, ttl: ttl, metadata: head.metadata, tags: [key.url])
            // A part is an answer, never a stored response.
            case .part: return nil
            case .file(let file):
                try await BlockingWork.run { [disk] in
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
    private func note(_ names: [String], _ key: CacheKey, _ ttl: TimeToLive, _ retention: Int64, _ now: Timestamp)
        async throws
    {
        let known = await cache.lookup(forKey: key.base)
        let old = known.flatMap { VaryNote(metadata: $0.metadata) }
        let note = old?.adding(names) ?? VaryNote(names)
        // It lives as long as the longest-lived variant.
        let left = old == nil ? 0 : known?.expiresAt.map { $0.timeIntervalSince(now.date) * 1000 } ?? 0
        if note == old, left >= Double(retention) { return }
        let life = left < Double(retention) ? ttl : .milliseconds(left)
        if note == old, try await cache.setTimeToLive(life, forKey: key.base) { return }
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
