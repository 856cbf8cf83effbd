import LarderFiles
import LarderFoundation

/// An entry that came from a remote tier: hostile bytes, until they prove to be what this version of Larder writes.
struct RemoteValue: Sendable {
    let payload: Data
    private let entry: IndexEntry
    private let remoteLife: RemoteLife

    /// Reads an entry; nil unless the checksum is right, and the record belongs to this key and this payload.
    init?(_ remote: RemoteEntry, _ life: RemoteLife, _ key: Key, sizeLimit: Int) {
        guard remote.payload.count <= sizeLimit, remote.record.count <= LineReader.longestRecord, remote.isIntact,
            life.keptStale >= 0, life.age >= 0, life.keptStale <= RemoteLife.longestStale
        else { return nil }
        let record = remote.record.withUnsafeBytes { RecordScanner.record(on: $0) }
        guard case .set(var entry)? = record, entry.keyText.hasSameBytes(as: key.text),
            entry.size == remote.payload.count
        else { return nil }
        // The sender's disk is no business of this machine.
        entry.file.place = .ownFile
        payload = remote.payload
        self.entry = entry
        remoteLife = life
        tags = entry.tags.map { Key($0.text, in: key.namespace) }
    }

    /// The tags, in the namespace that the key has here.
    let tags: [Key]
    var metadata: [String: String] { entry.metadata }
    var isAbsent: Bool { entry.isAbsent }

    var coding: Coding? { entry.coding }

    /// The life on the local clock, from the durations that the server has measured.
    func life(at now: Timestamp) -> Life {
        guard let remaining = remoteLife.remaining else { return .forever }
        let expires = now.advanced(byMilliseconds: remaining)
        if entry.life.isEnded { return .ended(at: min(expires, now)) }
        return Life(expires: expires, ttl: max(entry.life.ttl, min(remaining, Life.unlimited)))
    }

    func stored(at now: Timestamp) -> Timestamp { now.advanced(byMilliseconds: -remoteLife.age) }

    func attachments(_ stamp: RemoteStamp, in namespace: Namespace) -> Attachments? {
        var traits = entry.attachments?.traits ?? .init()
        (traits.namespace, traits.tags) = (namespace, tags)
        traits.keptStale = remoteLife.keptStale
        return Attachments(traits, metadata: entry.metadata, unknown: stamp.field)
    }
}
