import LarderFiles
import LarderFoundation

/// Reading the disk: one job at a time for a key, whose result all callers share.
extension TieredBackend {
    typealias Found = JoinedReads<Value>.Found

    /// Returns a value from disk, or from memory if it is there by now; nil for a miss.
    func read(_ key: Key, orStale: Bool) async -> Found? {
        let name = JoinedReads<Value>.Name(key: key, orStale: orStale)
        let (outcome, isShared) = await reads.value(name) { load(name) }
        if !isShared { return outcome.value }
        let entry = knownEntry(name)
        switch outcome {
        // A result from before the call is an answer to it, too, if nothing has changed since.
        case .found(let found):
            if let entry, let read = found.entry, entry.isSameValue(as: read) {
                return Found(
                    value: found.value, life: MemoryLife(entry), metadata: entry.metadata, time: disk.now, entry: entry)
            }
        case .missed(let read):
            guard let entry else { return nil }
            if let read, read.isSameValue(as: entry) { return nil }
        }
        // This one begins after the call, whoever begins it.
        return await reads.value(name) { load(name) }.outcome.value
    }

    /// Inserts a value that was read into memory, unless that has a newer one.
    func promote(_ promotion: Promotion, _ entry: IndexEntry, _ key: Key) {
        guard let memory = tier?.memory else { return }
        let insert = Promotion(tier: promotion.tier) { if !memory.isUnstored(key.text) { promotion.insert($0) } }
        disk.store.index.promote(entry, key, insert)
    }

    private func knownEntry(_ name: JoinedReads<Value>.Name) -> IndexEntry? {
        let now = disk.now
        guard let entry = disk.readableStore?.recovery.knownEntry(name.key, at: now) else { return nil }
        return entry.isFresh(at: now) || name.orStale && entry.isUsable(at: now) ? entry : nil
    }

    /// Reads a value in an I/O job and promotes it, unless it has been replaced or removed in the meantime.
    func load(_ name: JoinedReads<Value>.Name) -> JoinedReads<Value>.Outcome {
        let (key, now) = (name.key, disk.now)
        if let found = findInMemory(key.text) {
            return .found(Found(value: found.value, life: found.life, metadata: found.metadata, time: now, entry: nil))
        }
        // Another read may have brought a stale one.
        if name.orStale, let stored = storedInMemory(key) {
            let found = Found(
                value: stored.value, life: stored.life, metadata: stored.metadata, time: now, entry: nil)
            return .found(found)
        }
        let known = knownEntry(name)
        guard let (entry, value) = decode(key, at: now, orStale: name.orStale) else { return .missed(known) }
        if let promotion = promotion(of: value, key.text, size: entry.size) {
            promote(promotion, entry, key)
        }
        return .found(Found(value: value, life: MemoryLife(entry), metadata: entry.metadata, time: now, entry: entry))
    }

    /// Reads and decodes a value; nil for a miss.
    private func decode(_ key: Key, at now: Timestamp, orStale: Bool) -> (entry: IndexEntry, value: Value)? {
        switch reading(key, at: now, orStale: orStale) {
        case .value(let entry, let value): (entry, value)
        case .undecodable, .missed: nil
        }
    }

    /// The same; notes an entry that cannot be decoded, and reports it once. It is tried again each time: the coder may
    /// have lacked something.
    func reading(_ key: Key, at now: Timestamp, orStale: Bool = false) -> DiskCache.Reading<Value> {
        let reading = disk.reading(
            key, at: now, orStale: orStale, typeName, reads: coder.reads, decode: coder.decode,
            mayReport: { undecodable.note($0, key) })
        if case .value = reading { undecodable.forget(key) }
        return reading
    }

    private var typeName: String { "a value of the type \(Value.self)" }

    /// True for an entry that did not decode when it was read last, or whose coding says that it does not. It counts as
    /// missing, and is reported once. Reads nothing.
    func isUndecodable(_ entry: IndexEntry, _ key: Key) -> Bool {
        if undecodable.has(entry, key) { return true }
        if coder.reads(entry.coding) { return false }
        if undecodable.note(entry, key) { disk.reportUndecodable(entry, key, typeName) }
        return true
    }
}
