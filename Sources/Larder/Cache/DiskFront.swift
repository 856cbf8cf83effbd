import Foundation
import LarderFiles

/// What a cache does on the disk tier, and with its memory in step. Runs on the lane; no lock is held while user code runs.
struct DiskFront<Value: Sendable>: Sendable {
    let disk: DiskCache
    let coder: Coder<Value>
    let attached: AttachedMemory<Value>?
    let cost: (@Sendable (Value, Int) -> Int)?
    let defaultTTL: TimeToLive

    /// Reads a fresh value and promotes it, unless it has been replaced or removed meanwhile. What cannot be decoded is a miss,
    /// reported and kept: it may be another type's.
    func lookup(_ text: String) -> Lookup<Value>? {
        guard let store = disk.readableStore else { return nil }
        let key = disk.key(text)
        let now = disk.now
        let found = store.read(key, at: now) { volume, row in
            volume.payload(of: row).then { .value((row: row, data: $0)) }
        }
        guard let (row, data) = found else { return nil }
        let value: Value
        do {
            value = try coder.decode(data)
        } catch {
            let message = "What is stored for the key is not \(Value.self): \(error)."
            store.report(CacheError(code: .undecodable, message: message, path: disk.directory.path), of: key)
            return nil
        }
        if let promotion = promotion(of: value, text, size: data.count) { store.index.promote(row, key, promotion) }
        return Lookup(value, in: .disk, life: MemoryLife(row), at: now)
    }

    /// Stores a value on disk, and in memory at the moment when it is there for everybody.
    func set(
        _ value: Value, _ text: String, ttl: TimeToLive, metadata: [String: String]
    ) throws(CacheError) {
        let data: Data
        do {
            data = try coder.encode(value)
        } catch {
            throw CacheError(code: .unencodable, message: "The value cannot be encoded: \(error).")
        }
        let store = try disk.openStore
        let key = try disk.checked(text)
        let now = disk.now
        guard let life = ttl.or(defaultTTL).life(from: now, default: disk.configuration.defaultTTL) else {
            _ = try remove(text)
            return
        }
        let attachments = disk.attachments(metadata)
        let promotion = promotion(of: value, text, size: data.count)
        try data.withBytes { bytes throws(CacheError) in
            try store.set(bytes, for: key, life: life, attachments: attachments, at: now, promotion: promotion)
        }
    }

    /// The cost is asked for here, where no lock is held.
    private func promotion(of value: Value, _ text: String, size: Int) -> Promotion? {
        guard let attached else { return nil }
        let cost = cost.map { $0(value, size) } ?? size
        return Promotion(tier: attached) { row in
            attached.memory.insert(value, forKey: text, life: MemoryLife(row), cost: cost)
        }
    }

    /// Removes a value from both tiers, also one that somebody has put into the memory alone.
    func remove(_ text: String) throws(CacheError) -> Bool {
        let isRemoved = try disk.removeValue(forKey: text)
        attached?.invalidate(text, .removed)
        return isRemoved
    }

    func removeAll() throws(CacheError) {
        try disk.removeAll()
        attached?.invalidateAll()
    }

    /// Notes that a value was read in memory, where reading renews lives; nil when the disk does not have it any more.
    func slide(_ text: String) -> MemoryLife? {
        let key = disk.key(text)
        let now = disk.now
        let life = disk.readableStore?.index.withShard(of: key) { shard -> MemoryLife? in
            guard let row = shard.manifest.use(key, at: now, sliding: true) else { return nil }
            let life = MemoryLife(row)
            attached?.memory.setLife(life, forKey: text)
            return life
        }
        return life ?? nil
    }
}
