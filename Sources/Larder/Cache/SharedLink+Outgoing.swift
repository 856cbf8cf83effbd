import LarderFiles
import LarderFoundation

/// The copy that a change speaks of.
extension SharedLink {
    enum OutgoingCopy: Sendable {
        case write(SharedWrite)
        /// It is too large to be sent, or was evicted or has expired meanwhile: the others only lose theirs.
        case removal
    }

    /// The most tags, and the longest record in bytes, that are sent.
    private static let mostTags = 64
    private static let longestRecord = 256 << 10

    func copy(of key: Key, _ change: SharedQueue.Change) -> OutgoingCopy? {
        let now = now
        guard let store = disk.readableStore else { return OutgoingCopy.removal }
        store.index.load(key)
        guard let entry = store.index.entry(key) else { return OutgoingCopy.removal }
        if change.operation == .write, !isMeant(entry, by: change) {
            // A newer change of the key follows, unless it is one that is not shared.
            return state.withLock { $0.queue.changes[key] != nil } ? nil : OutgoingCopy.removal
        }
        guard !entry.isOver(at: now), entry.size <= policy.sizeLimit, entry.tags.count <= Self.mostTags else {
            return OutgoingCopy.removal
        }
        guard let payload = payload(of: entry, key, in: store, at: now) else { return OutgoingCopy.removal }
        let record = Self.record(of: entry)
        guard record.count <= Self.longestRecord else { return OutgoingCopy.removal }
        let life = SharedLife(
            remaining: entry.life.isForever ? nil : entry.life.expires.millisecondsSince(now),
            keptStale: min(entry.attachments?.traits.keptStale ?? 0, SharedLife.longestStale),
            age: max(0, now.millisecondsSince(entry.stored)))
        let isLate = state.withLock { change.connection != $0.connection }
        return .write(
            SharedWrite(
                key: name(key), version: change.version,
                entry: SharedEntry(
                    payload: payload, record: record, checksum: SharedEntry.checksum(of: payload, record)),
                life: life, tags: entry.tags.map(\.text), generations: change.generations, isLate: isLate,
                base: entry.sharedStamp?.version))
    }

    /// Whether a write is about this entry: it bears the version of the write, or a lower one, when its life was
    /// changed before it was sent, or two callers stored a value at a time.
    private func isMeant(_ entry: IndexEntry, by change: SharedQueue.Change) -> Bool {
        guard let version = entry.sharedStamp?.version else { return false }
        return version <= change.stamp
    }

    /// Prints the record without the place of the entry's bytes on the disk of this machine.
    private static func record(of entry: IndexEntry) -> Data {
        var entry = entry
        entry.file.place = .ownFile
        var printer = RecordPrinter()
        printer.append(.set(entry))
        return Data(printer.bytes)
    }

    private func payload(of entry: IndexEntry, _ key: Key, in store: Store, at now: Timestamp) -> Data? {
        if entry.isAbsent { return Data() }
        let found = store.read(key, at: now, orStale: true) { directory, current in
            directory.payload(of: current).then { .value((entry: current, data: $0)) }
        }
        guard let found else { return nil }
        // Nobody has asked for it.
        store.takeBackHit(key, asMiss: false)
        return found.entry.isSameValue(as: entry) ? found.data : nil
    }
}
