import LarderFiles

/// The memory tier of a cache on a store: told of every change with the lock of a shard held, it releases nothing there.
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
