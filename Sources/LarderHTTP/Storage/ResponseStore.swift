import Larder
import LarderFiles
import LarderFoundation

/// The stored responses: an entry for each URL and variant, tagged by the URL.
///
/// The payload is the body, and the head is its metadata. An entry lives as long as its response may be used or
/// validated; the policy alone decides whether it is fresh. While the disk fails, an entry is in memory alone.
struct ResponseStore: Sendable {
    /// A stored response that a request selects.
    struct Found: Sendable {
        let key: String
        var head: HTTPResponseHead
        let body: Content
        /// The bytes of the whole body, also where `body` is empty.
        let size: Int
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
    let temporaryFiles: any FileSystem
    let failedRemovals = FailedRemovals()
    /// Large bodies of which parts were read. Bounded.
    private let verified = Lock<Set<StoredFile.Identity>>([])
    private static let mostVerified = 1_000

    init(
        disk: DiskCache, namespace: String, memory: MemoryCache<String, Data>.Configuration?,
        temporaryFiles: any FileSystem
    ) {
        cache = Cache(disk: disk, namespace: namespace, coder: .data, configuration: .init(memory: memory))
        self.disk = disk.namespace(namespace)
        self.temporaryFiles = temporaryFiles
    }

    /// The form in which a search returns bodies.
    enum Bodies: Sendable {
        case data
        /// Those of more bytes as copies in files.
        case filesAbove(Int)
        /// Those of more bytes as they are on disk, to read parts of them.
        case openAbove(Int)
        /// Empty.
        case none
    }

    /// Returns the response that a request selects, the most recent of several (RFC 9111, section 4).
    func find(_ key: CacheKey, for request: HTTPRequestHead, bodies: Bodies) async -> Answer {
        guard await isTrusted(key), let base = await load(key.base, bodies) else { return .nothing }
        if let head = HTTPResponseHead(metadata: base.metadata) { return .response(base.found(key.base, head)) }
        guard let note = VaryNote(metadata: base.metadata) else { return .nothing }
        let keys = note.keys(key, for: request)
        var newest: Found?
        for key in keys {
            guard let entry = await load(key, bodies), let head = HTTPResponseHead(metadata: entry.metadata),
                head.received >= note.since
            else { continue }
            if newest.map({ head.isMoreRecent(than: $0.head) }) ?? true { newest = entry.found(key, head) }
        }
        return newest.map(Answer.response) ?? .otherVariants(keys.first)
    }

    /// An entry as it is stored.
    struct Entry: Sendable {
        let metadata: [String: String]
        let body: Content
        let size: Int

        func found(_ key: String, _ head: HTTPResponseHead) -> Found {
            Found(key: key, head: head, body: body, size: size, metadata: metadata)
        }
    }

    func load(_ key: String, _ bodies: Bodies) async -> Entry? {
        switch bodies {
        case .none:
            if let entry = await cache.entry(forKey: key) {
                return Entry(metadata: entry.metadata, body: .data(Data()), size: entry.payloadSize)
            }
        case .filesAbove(let limit):
            if let entry = await cache.entry(forKey: key), entry.payloadSize > limit, let exported = await export(key) {
                return exported
            }
        case .openAbove(let limit):
            if let entry = await cache.entry(forKey: key), entry.payloadSize > limit, let opened = await open(key) {
                return opened
            }
        case .data: break
        }
        return await cache.lookup(forKey: key).map {
            Entry(metadata: $0.metadata, body: .data($0.value), size: $0.value.count)
        }
    }

    /// Opens the body of an entry; nil when that fails. All of it is verified, unless that was done since its file was
    /// written last.
    private func open(_ key: String) async -> Entry? {
        let opened = try? await BlockingWork.run { [disk, verified] in
            disk.openValue(forKey: key) { identity in verified.withLock { $0.contains(identity) } }
        }
        guard let file = opened ?? nil else { return nil }
        verified.withLock { verified in
            if verified.count >= Self.mostVerified { verified = [] }
            verified.insert(file.identity)
        }
        let size = file.entry.payloadSize
        return Entry(metadata: file.entry.metadata, body: .stored(file, 0..<size), size: size)
    }

    /// Copies the body of an entry to a file; nil when that fails.
    private func export(_ key: String) async -> Entry? {
        try? await BlockingWork.run { [disk, temporaryFiles] in
            var metadata: [String: String] = [:]
            let file = try TemporaryFile(in: temporaryFiles) { url in
                let entry = try disk.exportEntry(forKey: key, to: url, access: .owner)
                if let entry { metadata = entry.metadata }
                return entry?.payloadSize
            }
            return file.map { Entry(metadata: metadata, body: .file($0), size: $0.size) }
        }
    }

    /// Returns whether a response is stored as it was found: nobody, perhaps another process, has replaced or removed
    /// it.
    func isUnchanged(_ found: Found) async -> Bool {
        await load(found.key, .none)?.metadata == found.metadata
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
            if isRenewed { try await note(variant.names, of: head, key, retention, now) }
            return isRenewed
        } catch {
            return false
        }
    }

    /// Stores a response under the variant that its request selects, and returns the key of its entry; nil when it
    /// could not be stored. A cache whose disk fails answers all the same; the events of the disk report the failure.
    /// `retention`: milliseconds for which it is kept.
    func store(
        _ head: HTTPResponseHead, _ body: Content, _ key: CacheKey, for request: HTTPRequestHead, retention: Int64,
        at now: Timestamp
    ) async -> String? {
        let variant = HTTPVariant(head.fields, for: request.fields)
        // Without time to keep it in, storing would be removing.
        guard let entryKey = key.variant(variant), retention > 0, await isTrusted(key) else { return nil }
        let ttl = TimeToLive.milliseconds(Double(retention))
        do {
            switch body {
            case .data(let data): try await set(data, entryKey, ttl, head.metadata, key)
            // A part is an answer, never a stored response.
            case .part: return nil
            case .file, .stored:
                if case .stored(let file, _) = body, try await !BlockingWork.run({ try file.isIntact() }) { return nil }
                let file = try await body.file(in: temporaryFiles)
                try await BlockingWork.run { [disk] in
                    try disk.copyFile(
                        at: file.url, forKey: entryKey, ttl: ttl, metadata: head.metadata, tags: [key.url])
                }
            }
            try await note(variant.names, of: head, key, retention, now)
            return entryKey
        } catch {
            return nil
        }
    }

    /// Stores an entry, in memory alone when the disk fails.
    private func set(
        _ data: Data, _ entryKey: String, _ ttl: TimeToLive, _ metadata: [String: String], _ key: CacheKey
    ) async throws {
        do {
            try await cache.setValue(data, forKey: entryKey, ttl: ttl, metadata: metadata, tags: [key.url])
        } catch {
            // Others may use the directory by now, and their changes are not seen any more.
            if error.code == .closed { throw error }
            // Only what is fetched is kept in memory alone.
            _ = try? await cache.lookup(forKey: entryKey, tags: [key.url], policy: .reload) {
                FetchResult.value(data, ttl: ttl, metadata: metadata)
            }
            // Not without a memory tier, nor for a body that is too large for it.
            guard await cache.lookup(forKey: entryKey)?.metadata == metadata else { throw error }
            // Nor above an older one that the disk does not even remove: it would come back.
            if await cache.entry(forKey: entryKey) != nil {
                await remove(entryKey, of: key)
                throw error
            }
        }
    }

    /// Notes the names by which a response varies, if it does. A note lost to another request costs a miss.
    private func note(
        _ names: [String], of head: HTTPResponseHead, _ key: CacheKey, _ retention: Int64, _ now: Timestamp
    ) async throws {
        if names.isEmpty { return }
        let old = await load(key.base, .none).flatMap { VaryNote(metadata: $0.metadata) }
        let note = old?.adding(names, received: head.received) ?? VaryNote(names, since: head.received)
        // It lives as long as the longest-lived variant. One in memory alone is stored again: there may be room by now.
        let expiry = old == nil ? nil : await cache.entry(forKey: key.base)?.expiresAt
        let left = expiry.map { $0.timeIntervalSince(now.date) * 1000 } ?? 0
        if note == old, left >= Double(retention) { return }
        let life = TimeToLive.milliseconds(max(left, Double(retention)))
        if note == old, expiry != nil, try await cache.setTimeToLive(life, forKey: key.base) { return }
        try await set(Data(), key.base, life, note.metadata, key)
    }
}
