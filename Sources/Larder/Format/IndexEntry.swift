import LarderFiles

/// The index's knowledge of one entry: everything but the payload.
struct IndexEntry: Sendable {
    /// The UTF-8 bytes of the key; its namespace is in the attachments.
    var keyText: String
    /// The sequence number of the value, and the place of its bytes.
    var file: FileID
    /// The number of the last change: the file's own, or that of the last renewal of its life.
    var change: UInt64
    var stored: Timestamp
    var life: Life
    var used: Timestamp
    /// The size, and the rank in the lowest bits: the index keeps both for each entry.
    private var sizeAndRank: UInt64
    /// XXH64 of the payload.
    var checksum: UInt64
    var attachments: Attachments?

    init(
        keyText: String, file: FileID, change: UInt64, stored: Timestamp, life: Life, used: Timestamp,
        rank: Rank = Rank(), size: Int, checksum: UInt64, attachments: Attachments? = nil
    ) {
        self.keyText = keyText
        self.file = file
        self.change = change
        self.stored = stored
        self.life = life
        self.used = used
        sizeAndRank = UInt64(size) << Self.rankBits | UInt64(rank.packed)
        self.checksum = checksum
        self.attachments = attachments
    }

    private static var rankBits: UInt64 { 4 }

    /// Payload bytes.
    var size: Int {
        get { Int(sizeAndRank >> Self.rankBits) }
        set { sizeAndRank = UInt64(newValue) << Self.rankBits | UInt64(rank.packed) }
    }

    /// The rank for evictions.
    var rank: Rank {
        get { Rank(trusted: UInt8(sizeAndRank & (1 << Self.rankBits - 1))) }
        set { sizeAndRank = UInt64(size) << Self.rankBits | UInt64(newValue.packed) }
    }

    /// Counts a hit. The hits are in the lowest bits.
    mutating func countHit() {
        let most = UInt64(Rank.mostHits)
        if sizeAndRank & most < most { sizeAndRank += 1 }
    }

    /// The estimated size of the entry on disk, in bytes, with the smallest possible footer: blocks of 4 KiB, or its
    /// part of a segment.
    var allocatedSize: Int {
        let unit = file.place.isInSegment ? Place.unit : 4096
        return (size + keyText.utf8.count + 160 + unit - 1) / unit * unit
    }

    var namespace: Namespace { attachments?.traits.namespace ?? .none }
    var tags: [Key] { attachments?.traits.tags ?? [] }
    var metadata: [String: String] { attachments?.metadata ?? [:] }
    /// The part that a renewal may change.
    var update: Attachments.Update {
        Attachments.Update(metadata: metadata, keptStale: attachments?.traits.keptStale ?? 0)
    }

    func attachments(after update: Attachments.Update) -> Attachments? {
        attachments.map { $0.updated(update) }
            ?? Attachments(.init(keptStale: update.keptStale), metadata: update.metadata)
    }

    /// True when the entry records that there is no value.
    var isAbsent: Bool { attachments?.traits.isAbsent ?? false }
    var mustRevalidate: Bool { attachments?.traits.mustRevalidate ?? false }
    /// Nil: raw bytes, or an entry of a version that did not record it.
    var coding: Coding? { attachments?.traits.coding }

    /// The time until which the entry is kept: its expiry, or some time after it.
    var keptUntil: Timestamp {
        guard let attachments, !life.isForever else { return life.expires }
        return life.expires.advanced(byMilliseconds: attachments.traits.keptStale)
    }

    /// The identity of the entry. O(length).
    var key: Key { Key(keyText, in: namespace) }

    func isNamed(_ key: Key) -> Bool {
        guard keyText.hasSameBytes(as: key.text) else { return false }
        guard let attachments else { return key.namespace.isNone }
        return attachments.traits.namespace == key.namespace
    }

    /// True when both describe the same value, be its bytes in different places. The number alone is not enough:
    /// another directory may have replaced the first.
    func isSameValue(as other: IndexEntry) -> Bool {
        file.number == other.file.number && checksum == other.checksum && stored == other.stored
    }

    /// The same for the same place, too.
    func isSameFile(as other: IndexEntry) -> Bool {
        file.place == other.file.place && isSameValue(as: other)
    }

    /// The value at the later of two places, with the later of two lives: it was moved, and its life may have been
    /// renewed before or afterwards.
    func merged(with other: IndexEntry) -> IndexEntry {
        var merged = change >= other.change ? self : other
        merged.file = max(file, other.file)
        let last = other.used > used ? other : self
        (merged.used, merged.rank) = (last.used, last.rank)
        return merged
    }

    /// Takes over the life slot of the file; nil: it is damaged.
    mutating func takeSlot(_ slot: (life: Life, change: UInt64)?) {
        guard let slot else { return life.expires = Life.unknownExpiry }
        life = slot.life
        change = max(change, slot.change)
    }

    /// True for an entry read from a file with a damaged life slot.
    var hasDamagedSlot: Bool { life.expires == Life.unknownExpiry }

    /// True when a read may return the value.
    func isFresh(at now: Timestamp) -> Bool {
        isInForce(at: now) && !isAbsent
    }

    /// True when the entry counts, be it a value or a recorded absence.
    func isInForce(at now: Timestamp) -> Bool {
        !life.isExpired(at: now) && !life.isFromFuture(stored: stored, at: now)
    }

    /// True when there is a value, fresh or stale, that a fetch may use.
    func isUsable(at now: Timestamp) -> Bool {
        !isAbsent && !isOver(at: now) && !life.isFromFuture(stored: stored, at: now, toleratingEnd: true)
    }

    /// True when the entry is no longer needed.
    func isOver(at now: Timestamp) -> Bool {
        now >= keptUntil
    }
}

extension CacheEntry {
    init(_ entry: IndexEntry, at now: Timestamp) {
        key = entry.keyText
        namespace = entry.namespace == .none ? nil : entry.namespace.name
        payloadSize = entry.size
        allocatedSize = entry.allocatedSize
        storedAt = entry.stored.date
        expiresAt = entry.life.effectiveExpiry(at: now)?.date
        lastUsedAt = entry.used.date
        keptUntil = entry.keptUntil.milliseconds == Life.unlimited ? nil : entry.keptUntil.date
        tags = entry.tags.map(\.text)
        metadata = entry.metadata
    }
}

/// The parts of a record that most entries do not have.
final class Attachments: Sendable {
    let traits: Traits
    let metadata: [String: String]
    /// The fields that this version does not know, verbatim: `,"name":value` each.
    let unknown: [UInt8]

    /// The part that many entries share.
    struct Traits: Hashable, Sendable {
        var namespace = Namespace.none
        /// Tags are compared like keys, and belong to a namespace as keys do.
        var tags: [Key] = []
        /// For how long the entry is kept beyond its expiry. Milliseconds; `Life.unlimited`: forever.
        var keptStale: Int64 = 0
        /// The entry records that there is no value.
        var isAbsent = false
        /// An expired value may be revalidated, but not returned.
        var mustRevalidate = false
        /// The form of the payload; nil: raw bytes, or not known.
        var coding: Coding?
    }

    /// Returns nil when there is nothing to attach.
    init?(_ traits: Traits = Traits(), metadata: [String: String] = [:], unknown: [UInt8] = []) {
        if traits == Traits() && metadata.isEmpty && unknown.isEmpty { return nil }
        self.traits = traits
        self.metadata = metadata
        self.unknown = unknown
    }

    /// True when many entries can share one instance.
    var areShareable: Bool { metadata.isEmpty && unknown.isEmpty }

    /// The same with the changes of a renewal.
    func updated(_ update: Update) -> Attachments? {
        var traits = traits
        traits.keptStale = update.keptStale
        return Attachments(traits, metadata: update.metadata, unknown: unknown)
    }

    /// The part that may change with a life, while the payload stays.
    struct Update: Equatable, Sendable {
        var metadata: [String: String]
        var keptStale: Int64
    }
}

/// Attachments that many entries have in common, each kept as one shared object.
final class AttachmentsPool: Sendable {
    /// The maximum number of pooled traits, and of bytes in the tags of one of them.
    private static let most = 1024
    private static let longestTags = 256

    private let known = Lock<[Attachments.Traits: Attachments]>([:])

    /// Returns attachments with these traits; nil when there is nothing to attach. O(tags).
    func attachments(
        _ traits: Attachments.Traits, metadata: [String: String], unknown: [UInt8] = []
    ) -> Attachments? {
        let length = traits.tags.reduce(0) { $0 + $1.text.utf8.count }
        if !metadata.isEmpty || !unknown.isEmpty || length > Self.longestTags {
            return Attachments(traits, metadata: metadata, unknown: unknown)
        }
        return known.withLock { known in
            if let shared = known[traits] { return shared }
            guard let new = Attachments(traits) else { return nil }
            if known.count == Self.most { known = [:] }
            known[traits] = new
            return new
        }
    }

    /// Returns the same attachments, in the shared object if they can be shared. O(tags).
    func shared(_ own: Attachments?) -> Attachments? {
        guard let own, own.areShareable else { return own }
        return attachments(own.traits, metadata: [:])
    }
}
