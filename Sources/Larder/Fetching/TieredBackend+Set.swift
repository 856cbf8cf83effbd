import LarderFiles
import LarderFoundation

/// Storing for callers, as opposed to fetches.
extension TieredBackend {
    func set(_ values: [(key: String, value: Value)], _ options: SetOptions) async throws(CacheError) {
        for slice in slices(values) { try await set(slice, of: values, options) }
    }

    /// Cuts values into slices, so that other callers do not wait long.
    func slices(
        _ values: [(key: String, value: Value)], most: Int = .max
    ) -> [ArraySlice<(key: String, value: Value)>] {
        let length = max(1, min(Self.slice, most))
        return stride(from: 0, to: values.count, by: length).map { values[$0..<min($0 + length, values.count)] }
    }

    func set(
        _ slice: ArraySlice<(key: String, value: Value)>, of values: [(key: String, value: Value)],
        _ options: SetOptions
    ) async throws(CacheError) {
        try await disk.store.io.run { () throws(CacheError) in
            for (index, pair) in zip(slice.indices, slice) {
                do throws(CacheError) {
                    _ = try set(pair.value, pair.key, options)
                } catch {
                    throw values.count == 1 ? error : error.leaving(values[index...].map(\.key))
                }
            }
        }
        await disk.store.cleaner.pauseIfBehind()
    }

    func current(_ key: Key) async throws(CacheError) -> CurrentValue<Value> {
        try await disk.store.io.run { () throws(CacheError) in
            let (store, now) = (try disk.openStore, disk.now)
            store.index.load(key)
            if isProvisional, !store.recovery.settle(key, at: now), store.provisional.isReconciling {
                // A file that has not been looked at may have the value.
                store.recovery.awaitScan()
            }
            let below = store.index.entry(key)
            if let unstored = storedInMemory(key), unstored.entry == nil, unstored.life.isFresh(at: now) {
                // One that could not be removed may be left on disk.
                return CurrentValue(stored: unstored, hidden: below)
            }
            for _ in 0..<2 {
                // First: one that is found from here on is a change.
                let hidden = store.index.entry(key)
                guard let known = store.freshEntry(key, at: now) else { return CurrentValue(hidden: hidden) }
                if let stored = storedInMemory(key), let entry = stored.entry, entry.isFresh(at: now) {
                    return CurrentValue(stored: stored, entry: entry)
                }
                switch reading(key, at: now) {
                case .value(let entry, let value):
                    return CurrentValue(stored: StoredValue(value, entry, from: .disk), entry: entry)
                case .undecodable(let entry): return CurrentValue(entry: entry)
                case .missed:
                    // A lost or damaged one has been removed, and another process may have ended its life.
                    guard store.index.isCurrent(known, key), store.freshEntry(key, at: now) != nil else {
                        return CurrentValue(entry: store.index.entry(key))
                    }
                    // It is not removed while another process works on keys of the stripe.
                    store.awaitOthers(key)
                }
            }
            throw CacheError(code: .io, message: "The value of the key cannot be read now.", path: disk.directory.path)
        }
    }

    func replace(
        _ current: CurrentValue<Value>, with value: Value?, _ options: SetOptions, _ watch: Watch
    ) async throws(CacheError) -> Bool {
        let key = watch.key
        return try await disk.store.io.run { () throws(CacheError) in
            var current = current
            // A read may have prolonged the life meanwhile.
            if let entry = disk.store.index.entry(key), entry.change == current.entry?.change {
                current.stored?.entry = entry
            }
            let permit = ModificationPermit(backend: self, watch: watch, seen: current, now: disk.now)
            if let value, life(options.ttl, replacing: current.stored, at: disk.now) != nil {
                if current.stored?.toDisk == false {
                    return try setInMemory(
                        value, key, options, replacing: current.stored, hidden: current.hidden, permit)
                }
                return try set(value, key.text, options, replacing: current.stored, permit)
            }
            return try remove(key, permit, in: disk.openStore)
        }
    }

    /// Stores a value on disk, and in memory at the moment when every reader sees it there. Returns whether the
    /// permit was valid.
    private func set(
        _ value: Value, _ text: String, _ options: SetOptions, replacing current: StoredValue<Value>? = nil,
        _ permit: ModificationPermit<Value>? = nil
    ) throws(CacheError) -> Bool {
        if !options.toDisk { return try setInMemory(value, disk.checked(text), options) }
        let encoded = try encode(value)
        let store = try disk.openStore
        let key = try disk.checked(text)
        let now = disk.now
        guard let life = life(options.ttl, replacing: current, at: now) else {
            return try remove(key, permit, in: store)
        }
        let request = SetRequest(
            key: key, life: life,
            attachments: try attachments(encoded.coding, options, expires: life.expires, replacing: current), now: now,
            condition: permit.map { .ifPermitted($0) } ?? .none,
            promotion: promotion(of: value, text, size: encoded.data.count))
        return try encoded.data.withBytes { bytes throws(CacheError) in try store.set(bytes, request) }
    }

    /// Keeps a value in memory alone, and leaves nothing of the key on disk. Returns whether the permit was valid.
    private func setInMemory(
        _ value: Value, _ key: Key, _ options: SetOptions, replacing current: StoredValue<Value>? = nil,
        hidden: IndexEntry? = nil, _ permit: ModificationPermit<Value>? = nil
    ) throws(CacheError) -> Bool {
        let (store, now) = (try disk.openStore, disk.now)
        guard let memory = tier?.memory, let life = life(options.ttl, replacing: current, at: now) else {
            return try remove(key, permit, in: store)
        }
        let size = (try? encode(value).data.count) ?? 0
        let cost = cost.map { $0(value, size) } ?? size
        var extra = MemoryExtra(metadata: options.metadata, stored: now, isUnstored: true, toDisk: false)
        for tag in options.tags { extra.tags.append(try disk.checked(tag)) }
        extra.keptStale = defaults.keptStale(options.keepStale, after: life.expires)
        if let current {
            (extra.tags, extra.metadata, extra.keptStale) = (current.tags, current.metadata, current.keptStale)
            extra.mustRevalidate = !current.isAnswerable
        }
        var demand: ReleaseDemand?
        func insert() {
            demand = inPlaceOfNothing(key, store) {
                flights.invalidating(key) {
                    memory.insertKept(value, forKey: key.text, life: MemoryLife(life, from: now), cost: cost, extra)
                        .demand
                }
            }
        }
        repeat {
            if let permit, hidden == nil {
                // Nothing is on disk, and nobody else knows of it.
                try store.disk.run(shard: key.shard) { _ throws(CacheError) in if permit.isValid(for: key) { insert() }
                }
            } else {
                _ = try store.remove(key, at: now, permit: permit ?? MemoryPermit(), afterwards: insert)
            }
        } while demand == nil && permit == nil
        guard let demand else { return false }
        finish(demand, key)
        return true
    }

    /// Changes the memory in one step with all other processes' changes of the key; nil where one has stored a value.
    func inPlaceOfNothing(_ key: Key, _ store: Store, _ change: () -> ReleaseDemand?) -> ReleaseDemand? {
        store.index.withShard(of: key) { $0.table.entry(key) == nil ? change() : nil }
    }

    /// Removes a value from both tiers. Returns whether the permit was valid.
    private func remove(
        _ key: Key, _ permit: ModificationPermit<Value>?, in store: Store
    ) throws(CacheError) -> Bool {
        _ = try store.remove(key, at: disk.now, permit: permit)
        if let permit, !permit.isGranted.isSet { return false }
        dropFromMemory(key.text)
        return true
    }

    /// True while a value in memory alone is there as it was seen: clearing a tag notifies no watch, and leaves no
    /// trace on disk where there was nothing.
    fileprivate func isUnchanged(unstored seen: StoredValue<Value>, _ key: Key, at now: Timestamp) -> Bool {
        guard let known = tier?.memory.unstored(key.text, at: now) else { return false }
        return known.stored == seen.stored && known.expires >= seen.life.expires
    }

    /// Nil for "do not keep".
    private func life(_ ttl: TimeToLive?, replacing current: StoredValue<Value>?, at now: Timestamp) -> Life? {
        if ttl == nil, let current {
            return current.entry?.life ?? Life(expires: current.life.expires, ttl: Life.unlimited)
        }
        return (ttl ?? .default).life(from: now, default: defaultTTL)
    }

    private func attachments(
        _ coding: Coding?, _ options: SetOptions, expires: Timestamp, replacing current: StoredValue<Value>?
    ) throws(CacheError) -> Attachments? {
        var tags: [Key] = []
        for tag in options.tags { tags.append(try disk.checked(tag)) }
        var traits = Attachments.Traits(namespace: disk.keyNamespace, tags: tags, coding: coding)
        var metadata = options.metadata
        if let current {
            (traits.tags, metadata) = (current.tags, current.metadata)
            traits.keptStale = current.keptStale
            traits.mustRevalidate = !current.isAnswerable
        } else {
            traits.keptStale = defaults.keptStale(options.keepStale, after: expires)
        }
        return disk.store.pool.attachments(traits, metadata: metadata, unknown: options.unknown)
    }
}

/// The right to remove what a value in memory alone replaces.
private struct MemoryPermit: WritePermit {
    var event: CacheEvent.Kind? { .replaced }

    func isValid(for key: Key) -> Bool { true }
}

/// The right to replace the value that a caller has seen.
private final class ModificationPermit<Value: Sendable>: WritePermit {
    private let backend: TieredBackend<Value>
    private let watch: Watch
    private let seen: CurrentValue<Value>
    private let now: Timestamp
    let isGranted = Flag()

    init(backend: TieredBackend<Value>, watch: Watch, seen: CurrentValue<Value>, now: Timestamp) {
        self.backend = backend
        self.watch = watch
        self.seen = seen
        self.now = now
    }

    func isValid(for key: Key) -> Bool {
        let isValid = backend.flights.isUnchanged(watch) && isUnchanged(key)
        isGranted.set(isValid)
        return isValid
    }

    /// A renewal is no change for fetches, but it must not be undone either.
    private func isUnchanged(_ key: Key) -> Bool {
        let entry = backend.disk.store.index.entry(key)
        if let seen = seen.entry { return entry?.change == seen.change && entry?.isSameValue(as: seen) == true }
        // Not by its file alone: a fetch may have revalidated it meanwhile.
        if let entry, entry.isFresh(at: now), entry.file != seen.hidden?.file || entry.change != seen.hidden?.change {
            return false
        }
        return seen.stored.map { backend.isUnchanged(unstored: $0, key, at: now) } ?? true
    }
}
