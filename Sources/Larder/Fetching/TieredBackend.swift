import LarderFiles
import LarderFoundation

/// The disk and the memory above it, in step. Calls that touch the disk run on its I/O queue; no lock is held while
/// user code runs.
struct TieredBackend<Value: Sendable>: CacheBackend {
    let disk: DiskCache
    let coder: Coder<Value>
    /// The memory; nil without one.
    let tier: MemoryTierAdapter<Value>?
    let watchers: KeyWatchers
    let cost: (@Sendable (Value, Int) -> Int)?
    let defaults: CacheDefaults
    /// The longest life in memory, in milliseconds; nil: that on disk.
    let memoryTTL: Int64?
    let readEvents: ReadEvents?
    /// Shared by all caches on the directory.
    let flights: Flights
    let reads: JoinedReads<Value>
    let undecodable = UndecodableEntries()
    let counts = BackendCounters()
    /// Decides whether a copy may be returned from memory without asking the remote tier; nil without one.
    let mayEnterMemory: (@Sendable (IndexEntry, Key) -> Bool)?

    /// The number of values that one I/O job reads or stores.
    static var slice: Int { 32 }

    init(
        disk: DiskCache, coder: Coder<Value>, tier: MemoryTierAdapter<Value>?, watchers: KeyWatchers,
        cost: (@Sendable (Value, Int) -> Int)?, defaults: CacheDefaults, memoryTTL: Int64?, reader: ReadReporting?,
        mayEnterMemory: (@Sendable (IndexEntry, Key) -> Bool)? = nil
    ) {
        self.disk = disk
        flights = disk.store.observer.observer { Flights() }
        reads = JoinedReads(disk.store.io)
        self.coder = coder
        self.tier = tier
        self.watchers = watchers
        self.cost = cost
        self.defaults = defaults
        self.memoryTTL = memoryTTL
        self.mayEnterMemory = mayEnterMemory
        readEvents = reader.map { ReadEvents(center: disk.store.events, reader: $0, namespace: disk.keyNamespace) }
    }

    var clock: any Clock { disk.store.clock }

    func key(_ text: String) -> Key { disk.key(text) }

    func follow() {
        _ = disk.store.disk.follow()
    }

    func findInMemory(_ text: String) -> Lookup<Value>? {
        guard let memory = tier?.memory else { return nil }
        guard disk.store.disk.follow() else { return nil }
        let now = memory.time.now
        guard let found = memory.findEntry(text, at: now) else { return nil }
        if !disk.store.settings.slidingExpiry && memoryTTL == nil || memory.isUnstored(text) {
            return Lookup(found.value, from: .memory, life: found.life, metadata: found.metadata, at: now)
        }
        return lifeOnDisk(text).map { Lookup(found.value, from: .memory, life: $0, metadata: found.metadata, at: now) }
    }

    func findStaleInMemory(_ text: String, _ windows: StaleWindows) -> Lookup<Value>? {
        guard disk.store.disk.follow(), let found = tier?.memory.useStale(text, at: clock.now, windows) else {
            return nil
        }
        return Lookup(
            found.value, from: .memory, life: found.life, metadata: found.metadata, at: clock.now, isStale: true)
    }

    func lookupOnDisk(_ key: Key) async -> Lookup<Value>? {
        let found = await read(key, orStale: false).map { lookup($0) }
        count([found])
        if found == nil { counts.update { $0.misses += 1 } }
        return found
    }

    /// Reads in slices, so that several threads take part and other callers do not wait long.
    func lookupsOnDisk(_ keys: [Key]) async -> [Lookup<Value>?] {
        if keys.count == 1 {
            let found = [await read(keys[0], orStale: false).map { lookup($0) }]
            count(found)
            return found
        }
        let slices = stride(from: 0, to: keys.count, by: Self.slice).map { keys[$0..<min($0 + Self.slice, keys.count)] }
        let found = await withTaskGroup(of: (Int, [Lookup<Value>?]).self) { group in
            for (number, slice) in slices.enumerated() {
                group.addTask { (number, await lookupsOnDisk(slice)) }
            }
            return await group.reduce(into: [Int: [Lookup<Value>?]]()) { $0[$1.0] = $1.1 }
        }
        let all = slices.indices.flatMap { found[$0] ?? [] }
        count(all)
        return all
    }

    private func lookupsOnDisk(_ slice: ArraySlice<Key>) async -> [Lookup<Value>?] {
        let names = slice.map { JoinedReads<Value>.Name(key: $0, orStale: false) }
        let found = await reads.values(names) { load($0) }
        var lookups: [Lookup<Value>?] = []
        for name in names {
            // Others may read some of them.
            let value = if let own = found[name] { own.value } else { await read(name.key, orStale: false) }
            lookups.append(value.map { lookup($0) })
        }
        return lookups
    }

    private func lookup(_ found: JoinedReads<Value>.Found) -> Lookup<Value> {
        Lookup(
            found.value, from: found.entry == nil ? .memory : .disk, life: found.life, metadata: found.metadata,
            at: found.time)
    }

    /// Counts the hits on disk.
    private func count(_ found: [Lookup<Value>?]) {
        let hits = found.count { $0?.source == .disk }
        counts.update { $0.hits += hits }
    }

    /// Removes a value that is in memory alone, too: even when the directory is closed.
    func remove(_ text: String) async throws(CacheError) -> Bool {
        try await disk.store.io.run { () throws(CacheError) in
            let isInMemoryAlone = hasUnstoredValue(text)
            defer { if disk.isClosed { tier?.invalidate(text, .removed) } }
            let isRemoved = try disk.removeValue(forKey: text)
            dropFromMemory(text)
            return isRemoved || isInMemoryAlone
        }
    }

    /// A value in memory alone leaves the disk unchanged.
    func dropFromMemory(_ text: String) {
        tier?.invalidate(text, .removed)
        watchers.note(text)
    }

    func removeAll() async throws(CacheError) {
        try await disk.store.io.run { () throws(CacheError) in
            defer { if disk.isClosed { tier?.invalidateAll() } }
            try disk.removeAll()
            tier?.invalidateAll()
        }
    }

    func removeAll(tagged tag: String) async throws(CacheError) {
        try await disk.store.io.run { () throws(CacheError) in
            defer { if disk.isClosed { tier?.invalidateAll() } }
            try disk.removeAll(tagged: tag)
        }
    }

    /// The disk tells every tier; a value in memory alone expires there.
    func expire(_ text: String) async throws(CacheError) -> Bool {
        try await disk.store.io.run { () throws(CacheError) in
            let wasUnstored = hasUnstoredValue(text)
            if disk.isClosed { tier?.invalidate(text, .invalidated) }
            let wasFresh = try disk.expireValue(forKey: text)
            if wasUnstored, !wasFresh {
                disk.store.events.post(CacheEvent(.invalidated, keys: [text], in: disk.keyNamespace))
            }
            return wasFresh || wasUnstored
        }
    }

    func expireAll() async throws(CacheError) {
        try await disk.store.io.run { () throws(CacheError) in try disk.expireAll() }
    }

    func expireAll(tagged tag: String) async throws(CacheError) {
        try await disk.store.io.run { () throws(CacheError) in try disk.expireAll(tagged: tag) }
    }

    func setTimeToLive(_ ttl: TimeToLive, _ text: String) async throws(CacheError) -> Bool {
        let ttl = ttl.or(defaultTTL)
        if ttl.life(from: clock.now, default: defaultTTL) == nil { return try await remove(text) }
        return try await disk.store.io.run { () throws(CacheError) in
            let isChanged = changingUnstored(text) { memory in
                flights.noting(disk.key(text)) { memory.setTimeToLive(ttl, forKey: text) }
            }
            if let isChanged { return isChanged }
            if let entry = disk.readableStore?.freshEntry(key(text), at: disk.now), isUndecodable(entry, key(text)) {
                return false
            }
            return try disk.setTimeToLive(ttl, forKey: text)
        }
    }

    /// Changes a fresh value in memory that the disk could not store; nil when there is none. With the key's stripe
    /// held, nobody stores another one meanwhile.
    private func changingUnstored(
        _ text: String, _ change: (MemoryCache<String, Value>) -> Bool
    ) -> Bool? {
        guard hasUnstoredValue(text), let memory = tier?.memory else { return nil }
        let key = disk.key(text)
        func changeIfUnstored() -> Bool? {
            hasUnstoredValue(text) ? change(memory) : nil
        }
        do {
            return try disk.store.disk.run(shard: key.shard) { _ throws(CacheError) in changeIfUnstored() }
        } catch {
            return changeIfUnstored()
        }
    }

    /// True when there is a fresh value in memory that the disk could not store.
    func hasUnstoredValue(_ text: String) -> Bool {
        let now = disk.now
        guard let memory = tier?.memory, let found = memory.kept(text, at: now) else { return false }
        return found.extra.isUnstored && found.value != nil && found.life.isFresh(at: now)
    }

    func encode(_ value: Value) throws(CacheError) -> Encoded {
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
        return Promotion(
            tier: tier,
            insert: { entry in
                if let mayEnterMemory, !mayEnterMemory(entry, disk.key(text)) { return }
                tier.memory.insert(value, forKey: text, life: lifeInMemory(entry), cost: cost, MemoryExtra(entry))
            }, published: { watchers.note(text) })
    }

    /// The life of a value that comes into memory now.
    private func lifeInMemory(_ entry: IndexEntry) -> MemoryLife {
        let life = MemoryLife(entry)
        guard let memoryTTL else { return life }
        return MemoryLife(begun: life.begun, expires: min(life.expires, disk.now.advanced(byMilliseconds: memoryTTL)))
    }

    /// Returns the life of a value that was read in memory, where that on disk is another: it is renewed with sliding
    /// expiry, and longer with a `memoryTTL`. Nil when the value is no longer on disk.
    private func lifeOnDisk(_ text: String) -> MemoryLife? {
        let key = disk.key(text)
        let now = disk.now
        let slides = disk.store.settings.slidingExpiry
        let life = disk.readableStore?.index.withShard(of: key) { shard -> MemoryLife? in
            guard let entry = shard.table.use(key, at: now, sliding: slides) else { return nil }
            let life = MemoryLife(entry)
            if memoryTTL == nil { tier?.memory.setLife(life, forKey: text) }
            return life
        }
        disk.store.sweeper.shareSlide(of: key)
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
        switch cause {
        case .expired, .evictedOnDisk: memory.invalidateStored(key, cause)
        case .invalidated: memory.expireUnstored(key)
        default: memory.invalidate(key, cause)
        }
    }

    func expireAll(tagged tag: Key?) {
        memory.expireUnstored(tagged: tag)
    }

    func invalidateAll() {
        memory.invalidateAll()
    }

    func invalidateAll(tagged tag: Key) {
        memory.invalidateStored(orTagged: tag)
    }
}

/// The entries on disk that a cache could not decode: values of another type, or of an older version of its own.
/// Bounded: beyond a thousand it forgets one, which is then reported again.
final class UndecodableEntries: Sendable {
    private static let most = 1_000

    private let hasAny = Flag()
    private let entries = Lock<[Key: IndexEntry]>([:])

    func has(_ entry: IndexEntry, _ key: Key) -> Bool {
        hasAny.isSet && entries.withLock { $0[key]?.isSameValue(as: entry) ?? false }
    }

    func forget(_ key: Key) {
        if hasAny.isSet { entries.withLock { $0[key] = nil } }
    }

    /// False when it is noted already.
    func note(_ entry: IndexEntry, _ key: Key) -> Bool {
        hasAny.set()
        return entries.withLock { entries in
            if entries[key]?.isSameValue(as: entry) == true { return false }
            if entries.count >= Self.most { entries.remove(at: entries.startIndex) }
            entries[key] = entry
            return true
        }
    }
}
