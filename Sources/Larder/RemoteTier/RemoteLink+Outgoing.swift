import LarderFiles
import LarderFoundation

/// The copy that a change speaks of.
extension RemoteLink {
    enum OutgoingCopy: Sendable {
        case write(RemoteWrite)
        /// It is too large to be sent, and stays here; the others lose theirs.
        case unsendable
        /// It was evicted or has expired meanwhile, or another process has replaced it: the others lose theirs.
        case gone
    }

    /// The most tags, and the longest record in bytes, that are sent.
    private static let mostTags = 64
    private static let longestRecord = 256 << 10

    /// Returns the copy, and the version that it bears, if others can know that; nil when a newer change of the key
    /// follows.
    func copy(
        of key: Key, _ change: RemoteQueue.Change
    ) -> (copy: OutgoingCopy, version: RemoteVersion?)? {
        let now = now
        guard let store = disk.readableStore else { return (.gone, nil) }
        store.index.load(key)
        guard let entry = store.index.entry(key) else { return (.gone, nil) }
        if change.operation == .write, !isMeant(entry, by: change) {
            return state.withLock { $0.queue.changes[key] != nil } ? nil : (.gone, nil)
        }
        if entry.isOver(at: now) { return (.gone, nil) }
        let version = entry.remoteStamp?.timedVersion
        let record = Self.record(of: entry)
        guard entry.size <= policy.sizeLimit, entry.tags.count <= Self.mostTags, record.count <= Self.longestRecord
        else { return (.unsendable, version) }
        guard let payload = payload(of: entry, key, in: store, at: now) else { return (.gone, nil) }
        let life = RemoteLife(
            remaining: entry.life.isForever ? nil : entry.life.expires.millisecondsSince(now),
            keptStale: min(entry.attachments?.traits.keptStale ?? 0, RemoteLife.longestStale),
            age: max(0, now.millisecondsSince(entry.stored)))
        // A notice may have come since it was taken from the queue.
        let isLate = state.withLock { ($0.queue.sending[key] ?? change).connection != $0.connection }
        let write = RemoteWrite(
            key: name(key), version: change.version,
            entry: RemoteEntry(payload: payload, record: record, checksum: RemoteEntry.checksum(of: payload, record)),
            life: life, tags: entry.tags.map(\.text), isLate: isLate, base: entry.remoteStamp?.version)
        return (.write(write), version)
    }

    /// Whether a write is about this entry: it bears the version of the write, or a lower one of this machine, when its
    /// life was changed before it was sent, or two callers stored a value at a time. Another process on the directory
    /// may have stored a value of its own.
    private func isMeant(_ entry: IndexEntry, by change: RemoteQueue.Change) -> Bool {
        guard let version = entry.remoteStamp?.version else { return false }
        return version == change.stamp || version < change.stamp && version.node == change.stamp.node
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
