import Foundation
import LarderFiles

/// The disk and the memory above it, in step. Calls that touch the disk run on its I/O queue; no lock is held while
/// user code runs.
struct TieredBackend<Value: Sendable>: CacheBackend {
    let disk: DiskCache
    let coder: Coder<Value>
    /// The memory; nil without one.
    let tier: MemoryTierAdapter<Value>?
    let cost: (@Sendable (Value, Int) -> Int)?
    let defaultTTL: TimeToLive
    /// Shared by all caches on the directory.
    let flights: Flights
    let counts = BackendCounters()

    /// The number of values that one I/O job reads.
    private static var slice: Int { 32 }

    init(
        disk: DiskCache, coder: Coder<Value>, tier: MemoryTierAdapter<Value>?,
        cost: (@Sendable (Value, Int) -> Int)?, defaultTTL: TimeToLive
    ) {
        self.disk = disk
        flights = disk.store.observer.observer { Flights() }
        self.coder = coder
        self.tier = tier
        self.cost = cost
        self.defaultTTL = defaultTTL.or(disk.configuration.defaultTTL)
    }

    var clock: any Clock { disk.store.clock }

    func key(_ text: String) -> Key { disk.key(text) }

    func lookupInMemory(_ text: String) -> Lookup<Value>? {
        guard let memory = tier?.memory else { return nil }
        let now = memory.time.now
        guard let found = memory.lookup(text, at: now) else { return nil }
        if !disk.store.settings.slidingExpiry { return Lookup(found.value, from: .memory, life: found.life, at: now) }
        return slide(text).map { Lookup(found.value, from: .memory, life: $0, at: now) }
    }

    func lookupOnDisk(_ text: String) async -> Lookup<Value>? {
        let found = await disk.store.io.run { readFresh(text) }
        count([found])
        return found
    }

    /// Reads in slices, so that several threads take part and other callers do not wait long.
    func lookupsOnDisk(_ texts: [String]) async -> [Lookup<Value>?] {
        if texts.count <= Self.slice {
            let found = await disk.store.io.run { texts.map { readFresh($0) } }
            count(found)
            return found
        }
        let slices = stride(from: 0, to: texts.count, by: Self.slice).map {
            texts[$0..<min($0 + Self.slice, texts.count)]
        }
        let found = await withTaskGroup(of: (Int, [Lookup<Value>?]).self) { group in
            for (number, slice) in slices.enumerated() {
                group.addTask { (number, await disk.store.io.run { slice.map { readFresh($0) } }) }
            }
            return await group.reduce(into: [Int: [Lookup<Value>?]]()) { $0[$1.0] = $1.1 }
        }
        let all = slices.indices.flatMap { found[$0] ?? [] }
        count(all)
        return all
    }

    private func count(_ found: [Lookup<Value>?]) {
        let hits = found.count { $0 != nil }
        counts.update { counts in
            counts.hits += hits
            counts.misses += found.count - hits
        }
    }

    func set(
        _ value: Value, _ text: String, ttl: TimeToLive, metadata: [String: String], tags: [String]
    ) async throws(CacheError) {
        try await disk.store.io.run { () throws(CacheError) in
            try setOnDisk(value, text, ttl: ttl, metadata: metadata, tags: tags)
        }
    }

    /// Removes a value that is in memory alone, too.
    func remove(_ text: String) async throws(CacheError) -> Bool {
        try await disk.store.io.run { () throws(CacheError) in
            let isRemoved = try disk.removeValue(forKey: text)
            tier?.invalidate(text, .removed)
            return isRemoved
        }
    }

    func removeAll() async throws(CacheError) {
        try await disk.store.io.run { () throws(CacheError) in
            try disk.removeAll()
            tier?.invalidateAll()
        }
    }

    func removeAll(tagged tag: String) async throws(CacheError) {
        try await disk.store.io.run { () throws(CacheError) in
            try disk.removeAll(tagged: tag)
            tier?.invalidateAll()
        }
    }

    func setTimeToLive(_ ttl: TimeToLive, _ text: String) async throws(CacheError) -> Bool {
        let ttl = ttl.or(defaultTTL)
        return try await disk.store.io.run { () throws(CacheError) in try disk.setTimeToLive(ttl, forKey: text) }
    }

    /// Reads a fresh value and promotes it, unless it has been replaced or removed in the meantime.
    private func readFresh(_ text: String) -> Lookup<Value>? {
        let now = disk.now
        let key = key(text)
        guard let (entry, value) = read(key, at: now, orStale: false) else { return nil }
        if let promotion = promotion(of: value, text, size: entry.size) {
            disk.store.index.promote(entry, key, promotion)
        }
        return Lookup(value, from: .disk, life: MemoryLife(entry), at: now)
    }

    /// Reads and decodes a value; nil for a miss.
    func read(_ key: Key, at now: Timestamp, orStale: Bool) -> (entry: IndexEntry, value: Value)? {
        disk.read(
            key, at: now, orStale: orStale, as: coder.coding, "a value of the type \(Value.self)", coder.decode)
    }

    /// Stores a value on disk, and in memory at the moment when every reader sees it there.
    private func setOnDisk(
        _ value: Value, _ text: String, ttl: TimeToLive, metadata: [String: String], tags: [String]
    ) throws(CacheError) {
        let data = try encode(value)
        let store = try disk.openStore
        let key = try disk.checked(text)
        let now = disk.now
        guard let life = ttl.life(from: now, default: defaultTTL) else {
            _ = try disk.removeValue(forKey: text)
            tier?.invalidate(text, .removed)
            return
        }
        let attachments = try disk.attachments(metadata, tags, coder.coding)
        let request = SetRequest(
            key: key, life: life, attachments: attachments, now: now,
            promotion: promotion(of: value, text, size: data.count))
        _ = try data.withBytes { bytes throws(CacheError) in
            try store.set(bytes, request)
        }
    }

    func encode(_ value: Value) throws(CacheError) -> Data {
        do {
            return try coder.encode(value)
        } catch {
            throw CacheError(code: .unencodable, message: "The value cannot be encoded: \(error).")
        }
    }

    /// Calls the user's cost function: with no lock held.
    func promotion(of value: Value, _ text: String, size: Int) -> Promotion? {
        guard let tier else { return nil }
        let cost = cost.map { $0(value, size) } ?? size
        return Promotion(tier: tier) { entry in
            tier.memory.insert(value, forKey: text, life: MemoryLife(entry), cost: cost)
        }
    }

    /// Renews the life of a value that was read in memory, for caches with sliding expiry. Returns nil when it is no
    /// longer on disk.
    private func slide(_ text: String) -> MemoryLife? {
        let key = disk.key(text)
        let now = disk.now
        let life = disk.readableStore?.index.withShard(of: key) { shard -> MemoryLife? in
            guard let entry = shard.table.use(key, at: now, sliding: true) else { return nil }
            let life = MemoryLife(entry)
            tier?.memory.setLife(life, forKey: text)
            return life
        }
        return life ?? nil
    }
}

/// The memory of a cache, as the index sees it. The index calls it with the lock of a shard held: it releases no value
/// there.
final class MemoryTierAdapter<Value: Sendable>: MemoryTier {
    let memory: MemoryCache<String, Value>
    let namespace: Namespace

    init(_ memory: MemoryCache<String, Value>, of namespace: Namespace) {
        self.memory = memory
        self.namespace = namespace
    }

    func invalidate(_ key: String, _ cause: RemovalCause) {
        memory.invalidate(key, cause)
    }

    func invalidateAll() {
        memory.invalidateAll()
    }
}
