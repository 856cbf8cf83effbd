import LarderFiles

/// The memory tier of a cache on a store: told of every change with the lock of a shard held, it releases nothing there.
final class AttachedMemory<Value: Sendable>: MemoryTier {
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

extension MemoryCache {
    /// Drops a value because that on disk changes; it is released behind.
    func invalidate(_ key: Key, _ cause: RemovalCause) {
        let demand = table.withLock { table in
            table.drop(key, tag: MemoryKey.tag(key), cause)
            return table.takeDemand()
        }
        releaseBehind(demand)
    }

    /// Drops all values, because all on disk change.
    func invalidateAll() {
        let demand = table.withLock { table in
            if table.count > 0 { table.removeAll() }
            return table.takeDemand()
        }
        releaseBehind(demand)
    }

    /// Drops a value as a caller asks for it, and tells of it; true when it was fresh.
    func discard(_ key: Key) -> Bool {
        let now = time.now
        let (isFresh, demand) = table.withLock { table in
            let tag = MemoryKey.tag(key)
            let isFresh = table.entry(key, tag: tag, at: now) != nil
            table.drop(key, tag: tag, isFresh ? .removed : .expired)
            return (isFresh, table.takeDemand())
        }
        release(demand)
        return isFresh
    }

    /// Puts a value in with the life that it has on disk; what it pushes out is released behind.
    func insert(_ value: Value, forKey key: Key, life: MemoryLife, cost: Int) {
        let now = time.now
        let demand = table.withLock { table in
            let tag = MemoryKey.tag(key)
            if cost > costLimit {
                table.drop(key, tag: tag, .cost)
            } else {
                let replaced = table.insert(
                    value, for: key, tag: tag, life: life, cost: MemoryEntry<Key, Value>.bounded(cost), at: now)
                assert(replaced == nil, "it would be released with the caller's locks held")
                table.evict(count: countLimit, cost: costLimit)
            }
            return table.takeDemand()
        }
        releaseBehind(demand)
    }

    /// Returns a fresh value with its life, and notes the use.
    func lookup(_ key: Key, at now: Timestamp) -> (value: Value, life: MemoryLife)? {
        table.withLock { $0.useEntry(key, tag: MemoryKey.tag(key), at: now) }
    }

    /// Takes over a life that has changed on disk.
    func setLife(_ life: MemoryLife, forKey key: Key) {
        let now = time.now
        _ = table.withLock { $0.setLife(life, of: key, tag: MemoryKey.tag(key), at: now) }
    }
}
