import LarderFiles

/// What the cache knows about one entry without opening its file.
struct IndexEntry: Sendable {
    /// The UTF-8 bytes of the key; its namespace stands in the attachments.
    var keyText: String
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

    /// What the entry's file takes on most disks, which hand out blocks of 4 KiB: with the least that a footer can be.
    /// Bytes.
    var allocatedSize: Int { (size + keyText.utf8.count + 160 + 4095) / 4096 * 4096 }

    var namespace: Namespace { attachments?.traits.namespace ?? .none }
    var tags: [Key] { attachments?.traits.tags ?? [] }
    var metadata: [String: String] { attachments?.metadata ?? [:] }
    /// What a renewal may change.
    var update: Attachments.Update {
        Attachments.Update(metadata: metadata, keptStale: attachments?.traits.keptStale ?? 0)
    }

    func attachments(after update: Attachments.Update) -> Attachments? {
        attachments.map { $0.updated(update) }
            ?? Attachments(.init(keptStale: update.keptStale), metadata: update.metadata)
    }

    /// True when the entry says that there is no value.
    var isAbsent: Bool { attachments?.traits.isAbsent ?? false }
    var mustRevalidate: Bool { attachments?.traits.mustRevalidate ?? false }

    /// Until when the entry is kept: its expiry, or some time after it.
    var keptUntil: Timestamp {
        guard let attachments, !life.isForever else { return life.expires }
        return life.expires.advanced(byMilliseconds: attachments.traits.keptStale)
    }

    /// What identifies the entry. O(length).
    var key: Key { Key(keyText, in: namespace) }

    func isNamed(_ key: Key) -> Bool {
        guard keyText.hasSameBytes(as: key.text) else { return false }
        guard let attachments else { return key.namespace.isNone }
        return attachments.traits.namespace == key.namespace
    }

    /// True when both speak of one file. The number alone is not enough: another directory may have taken the place of
    /// the first.
    func isSameValue(as other: IndexEntry) -> Bool {
        file == other.file && checksum == other.checksum && stored == other.stored
    }

    /// True for an entry that was read from a file with a damaged life slot.
    var hasDamagedSlot: Bool { life.expires == Life.unknownExpiry }

    /// True when a read may return the value.
    func isFresh(at now: Timestamp) -> Bool {
        isInForce(at: now) && !isAbsent
    }

    /// True when what the entry says counts: its value, or that there is none.
    func isInForce(at now: Timestamp) -> Bool {
        !life.isExpired(at: now) && !life.isFromFuture(stored: stored, at: now)
    }

    /// True when there is a value, fresh or stale, that a fetch may go by.
    func isUsable(at now: Timestamp) -> Bool {
        !isAbsent && !isOver(at: now) && !life.isFromFuture(stored: stored, at: now)
    }

    /// True when nothing of the entry is needed any more.
    func isOver(at now: Timestamp) -> Bool {
        now >= keptUntil
    }
}

extension CacheEntry {
    init(_ entry: IndexEntry, at now: Timestamp) {
        key = entry.keyText
        namespace = entry.namespace == .none ? nil : entry.namespace.name
        size = entry.size
        storedAt = entry.stored.date
        expiresAt = entry.life.effectiveExpiry(at: now)?.date
        lastUsedAt = entry.used.date
        keptUntil = entry.keptUntil.milliseconds == Life.unlimited ? nil : entry.keptUntil.date
        tags = entry.tags.map(\.text)
        metadata = entry.metadata
    }
}
