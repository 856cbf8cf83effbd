import LarderFiles

/// What the cache knows about one entry without opening its file.
struct Row: Sendable {
    var key: String
    /// The sequence number that names the entry's file.
    var file: UInt64
    /// The number of the last change: that of the file, or of the last renewal of its life.
    var change: UInt64
    var stored: Timestamp
    var life: Life
    var used: Timestamp
    /// Payload bytes.
    var size: Int
    /// XXH64 of the payload.
    var checksum: UInt64
    var attachments: Attachments?

    /// What the entry's file takes on most disks, which hand out blocks of 4 KiB: with the least that a footer can be. Bytes.
    var space: Int { (size + key.utf8.count + 160 + 4095) / 4096 * 4096 }

    var namespace: Namespace { attachments?.namespace ?? .none }

    /// What identifies the entry. O(length).
    var name: Key { Key(key, in: namespace) }

    /// True when both speak of one file. The number alone is not enough: another directory may have taken the place of the first.
    func isSameValue(as other: Row) -> Bool {
        file == other.file && checksum == other.checksum && stored == other.stored
    }

    /// True when a read may return the entry.
    func isFresh(at now: Timestamp) -> Bool {
        !life.isExpired(at: now) && !life.isFromFuture(stored: stored, at: now)
    }
}

/// The parts of a record that most entries do not have.
final class Attachments: Sendable {
    let metadata: [String: String]
    let namespace: Namespace
    /// The fields that this version does not know, verbatim: `,"name":value` each.
    let unknown: [UInt8]

    /// Returns nil when there is nothing to attach.
    init?(metadata: [String: String], namespace: Namespace = .none, unknown: [UInt8] = []) {
        if metadata.isEmpty && namespace == .none && unknown.isEmpty { return nil }
        self.metadata = metadata
        self.namespace = namespace
        self.unknown = unknown
    }

    /// True when many entries can share one of these.
    var isNamespaceAlone: Bool { metadata.isEmpty && unknown.isEmpty }
}
