import LarderFiles
import LarderFoundation

/// An entry that came from a shared tier: hostile bytes, until they prove to be what this version of Larder writes.
struct SharedValue: Sendable {
    let payload: Data
    private let entry: IndexEntry
    private let shared: SharedLife

    /// Reads an entry; nil unless the checksum is right, and the record belongs to this key and this payload.
    init?(_ shared: SharedEntry, _ life: SharedLife, _ key: Key, sizeLimit: Int) {
        guard shared.payload.count <= sizeLimit, shared.record.count <= LineReader.longestRecord, shared.isIntact,
            life.keptStale >= 0, life.age >= 0, life.keptStale <= SharedLife.longestStale
        else { return nil }
        let record = shared.record.withUnsafeBytes { RecordScanner.record(on: $0) }
        guard case .set(var entry)? = record, entry.keyText.hasSameBytes(as: key.text),
            entry.size == shared.payload.count
        else { return nil }
        // The sender's disk is no business of this machine.
        entry.file.place = .ownFile
        payload = shared.payload
        self.entry = entry
        self.shared = life
        tags = entry.tags.map { Key($0.text, in: key.namespace) }
    }

    /// The tags, in the namespace that the key has here.
    let tags: [Key]
    var metadata: [String: String] { entry.metadata }
    var isAbsent: Bool { entry.isAbsent }

    var coding: Coding? { entry.coding }

    /// The life on the local clock, from the durations that the server has measured.
    func life(at now: Timestamp) -> Life {
        guard let remaining = shared.remaining else { return .forever }
        let expires = now.advanced(byMilliseconds: remaining)
        if entry.life.isEnded { return .ended(at: min(expires, now)) }
        return Life(expires: expires, ttl: max(entry.life.ttl, min(remaining, Life.unlimited)))
    }

    func stored(at now: Timestamp) -> Timestamp { now.advanced(byMilliseconds: -shared.age) }

    func attachments(_ stamp: SharedStamp, in namespace: Namespace) -> Attachments? {
        var traits = entry.attachments?.traits ?? .init()
        (traits.namespace, traits.tags) = (namespace, tags)
        traits.keptStale = shared.keptStale
        return Attachments(traits, metadata: entry.metadata, unknown: stamp.field)
    }
}
