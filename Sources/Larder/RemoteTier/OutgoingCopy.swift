import LarderFiles
import LarderFoundation

/// The copy that a change speaks of, read from the disk to be sent.
enum OutgoingCopy: Sendable {
    /// The value, and the version that the copy bears, if others can know that.
    case write(RemoteWrite, own: RemoteVersion?)
    /// It is too large to be sent, and stays here; the others lose theirs.
    case unsendable(own: RemoteVersion?)
    /// It was evicted or has expired meanwhile: the others lose theirs.
    case gone
    /// Another value has taken its place, by a newer change here or by another process on the directory.
    case replaced

    /// The most tags, and the longest record in bytes, that are sent.
    private static let mostTags = 64
    private static let longestRecord = 256 << 10

    init(of key: Key, as name: RemoteKey, _ change: RemoteQueue.Change, on disk: DiskCache, sizeLimit: Int) {
        self = Self.read(key, name, change, disk, sizeLimit) ?? .gone
    }

    /// Nil when it is gone.
    private static func read(
        _ key: Key, _ name: RemoteKey, _ change: RemoteQueue.Change, _ disk: DiskCache, _ sizeLimit: Int
    ) -> OutgoingCopy? {
        let now = disk.store.clock.now
        guard let store = disk.readableStore else { return nil }
        store.index.load(key)
        guard let entry = store.index.entry(key) else { return nil }
        if change.operation == .write, !isMeant(entry, by: change) { return .replaced }
        if entry.isOver(at: now) { return nil }
        let own = entry.remoteStamp?.timedVersion
        let record = record(of: entry)
        guard entry.size <= sizeLimit, entry.tags.count <= mostTags, record.count <= longestRecord else {
            return .unsendable(own: own)
        }
        guard let payload = payload(of: entry, key, in: store, at: now) else { return nil }
        let life = RemoteLife(
            remaining: entry.life.isForever ? nil : entry.life.expires.millisecondsSince(now),
            keptStale: min(entry.attachments?.traits.keptStale ?? 0, RemoteLife.longestStale),
            age: max(0, now.millisecondsSince(entry.stored)))
        let write = RemoteWrite(
            key: name, version: change.version,
            entry: RemoteEntry(payload: payload, record: record, checksum: RemoteEntry.checksum(of: payload, record)),
            life: life, tags: entry.tags.map(\.text), base: entry.remoteStamp?.version)
        return .write(write, own: own)
    }

    /// Whether a write is about this entry: it bears the version of the write, or a lower one of this machine, when its
    /// life was changed before it was sent, or two callers stored a value at a time. Another process on the directory
    /// may have stored a value of its own.
    private static func isMeant(_ entry: IndexEntry, by change: RemoteQueue.Change) -> Bool {
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

    private static func payload(of entry: IndexEntry, _ key: Key, in store: Store, at now: Timestamp) -> Data? {
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
