import LarderFiles

/// One line about the cache, in one format for the manifest, the journal and (for a set) the footer of the entry file.
///
/// A record is a JSON object on one line that ends with its own check:
///
///     {"k":"a/b","n":17,"s":1763632800000,"e":1763719200000,"t":86400000,"z":5,"h":"26c7827d889f6da3","c":"0f2a…"}
///
/// | field    | meaning                                                                                  |
/// | -------- | ---------------------------------------------------------------------------------------- |
/// | `larder` | in a header: the format's version, 2 or 3                                                |
/// | `g`      | in a header: the generation                                                              |
/// | `o`      | the operation, one of `Operation`; absent in a header and a set                          |
/// | `k`      | key; a `life` without one ends the lives of all entries in a scope at `e`                |
/// | `ns`     | namespace of key and tags, or of a `clear` or keyless `life`; absent: none, or for these two all |
/// | `n`      | sequence number: of a set, the name of its file; of `used`, the entry's last change; in a header, the last taken; in `groups`: see `GroupTable` |
/// | `f`      | in `life`, `used` and `obsolete`: the file concerned                                     |
/// | `l`      | in a manifest, of an entry whose life was renewed: the number of that change; beside `r` in a `used`: the highest number then |
/// | `s`      | stored at, milliseconds since 1970, as all times                                         |
/// | `e`      | expires at; absent: never                                                                |
/// | `t`      | the requested life, milliseconds; absent: until a date, or forever; 0: ended by a caller |
/// | `u`      | last used at; absent: when stored                                                        |
/// | `r`      | of a set: its `Rank`, absent: that of a new entry; in a `used`: the one that an evictor has given |
/// | `z`      | payload bytes                                                                            |
/// | `h`      | XXH64 of the payload, 16 hex digits                                                      |
/// | `m`      | metadata: an object of strings; in a `life`: the new metadata                            |
/// | `tg`     | tags: an array of strings; in a `clear` or a keyless `life`: the one tag concerned       |
/// | `ks`     | kept stale: for how long the entry is kept beyond its expiry, milliseconds; absent: 0    |
/// | `ab`     | 1: the entry says that there is no value                                                 |
/// | `mr`     | 1: must revalidate; an expired value is never returned                                   |
/// | `cd`     | coding of the payload, see `Coding`; absent: raw bytes, or not known |
/// | `bt`     | in the header of a journal: see `header`                                                 |
/// | `to`     | in `closed`: the number of entries, their payload bytes and their bytes on disk          |
/// | `nt`     | in `closed` and `groups`: the same for each namespace; absent: there are too many        |
/// | `sd`, `at`, `gr`, `jr` | in `groups`, the last record of a manifest: see `GroupTable`                     |
/// | `w`      | of a set or `obsolete`: the place in a segment, see `Place`; absent: a file of its own       |
/// | `c`      | XXH64 of the line before `,"c"`, 16 hex digits; always the last field                    |
///
/// Unknown fields are kept verbatim. The check, its place and the header
/// stay the same in every version.
///
/// In a scope, an empty `ns` is the part without a namespace. Versions that do not know this count the line as damage,
/// reconcile the index with the files, and find the tombstone there; see `EntryFile`.
///
/// A `life` without a key has a scope, written like that of a `clear`. It ends the lives of all entries in it whose
/// last change has a lower number. Versions that do not know it also count the line as damage.
enum Record: Sendable {
    /// `boot`, in a journal: during this boot of the system, every file that no line mentions belongs to a change that
    /// was under way at the end. 0: other such files may exist, so they must be listed. `sharedBoot`: these are dead.
    case header(version: UInt64, generation: UInt64, last: UInt64, boot: UInt64? = nil)
    case set(IndexEntry)
    case remove(key: Key, number: UInt64)
    case life(key: Key, file: UInt64, change: UInt64, Life, Attachments.Update? = nil)
    /// The last use, or what an evictor has decided. With sliding lives the resulting expiry, which applies only
    /// to the life of `change`.
    case used(key: Key, file: UInt64, change: UInt64, at: Timestamp, decision: Rank.Decision? = nil, expires: Timestamp)
    /// Everything in a scope with a lower number is removed.
    case clear(ClearScope, number: UInt64)
    /// Everything in a scope that has not changed since, and has not expired by then, expires at that time.
    case expire(ClearScope, number: UInt64, at: Timestamp)
    /// A file is dead, whatever its footer says, and waits to be deleted. With a key, the key's entry must not use it
    /// either. Of a whole segment: it could not be read after damage, and its entries have no higher numbers.
    case obsolete(file: FileID, of: Key?)
    /// The last record of a session that ended in order: the entries and the files agree.
    case closed(number: UInt64, totals: SavedTotals? = nil)
    /// The last record of a manifest.
    case groups(GroupTable)
    /// A valid record of an operation that this version does not know.
    case unknown

    /// In the header of a journal of a process that shared the directory. Each of them knows only a part of the files
    /// that wait to be deleted, so a file that no line mentions is dead.
    static let sharedBoot = UInt64.max

    /// In the header of a manifest that was saved while files could not be read after damage: older values than theirs
    /// may be in it, so it counts as damaged.
    static let doubtfulBoot = UInt64.max - 1

    /// The version of a directory without segments. The manifests of version 1 have no groups.
    static let plainVersion: UInt64 = 2
    /// The version of a directory that may have segments: an older Larder would take their entries for lost.
    static let segmentsVersion: UInt64 = 3
    static let lastVersion = segmentsVersion
    /// A record with a larger number is damaged, and a file with a larger name is foreign. No cache gets that far, and
    /// JSON readers would round such a number.
    static let lastNumber: UInt64 = 1 << 53

    enum Operation: String {
        case remove, life, used, clear, obsolete, closed, groups
    }

    /// The highest sequence number that the record mentions.
    var highestNumber: UInt64 {
        switch self {
        case .header(_, _, let last, _): last
        case .set(let entry): max(entry.file.number, entry.change)
        case .remove(_, let number), .clear(_, let number), .expire(_, let number, _), .closed(let number, _): number
        case .life(_, let file, let change, _, _): max(file, change)
        case .used(_, let file, let change, _, _, _): max(file, change)
        case .obsolete(let file, _): file.number
        case .groups, .unknown: 0
        }
    }

    /// True when it ends the life of something.
    var isRemoval: Bool {
        switch self {
        case .remove, .clear, .expire: true
        case .life(_, _, _, let life, _): life.isEnded
        case .header, .set, .used, .obsolete, .closed, .groups, .unknown: false
        }
    }
}

/// The fields of one line, before they are checked against each other.
struct Fields {
    var version: UInt64?
    var generation: UInt64?
    var operation: String?
    var key: String?
    var namespace: String?
    var number: UInt64?
    var file: UInt64?
    var change: UInt64?
    var stored: Int64?
    var expires: Int64?
    var ttl: Int64?
    var used: Int64?
    var rank: UInt64?
    var size: Int64?
    var checksum: UInt64?
    var place: UInt64?
    var metadata: [String: String]?
    var tags: [String]?
    var keptStale: Int64?
    var absent: UInt64?
    var mustRevalidate: UInt64?
    var coding: String?
    var boot: UInt64?
    var seed: UInt64?
    var start: UInt64?
    var groups: [GroupTable.Group]?
    var journals: [JournalPart]?
    var totals: EntryTotals?
    var namespaces: [Namespace: EntryTotals]?
    var unknown: [UInt8] = []

    /// In bytes; a larger size is damage. The bound keeps sums of sizes from overflowing.
    static let largestSize = 1 << 40

    /// The record that the fields form; nil when one is missing or out of bounds.
    var record: Record? {
        if let version { return header(version) }
        guard let operation else { return entry.map(Record.set) }
        switch Record.Operation(rawValue: operation) {
        case .remove:
            guard let name, let number else { return nil }
            return .remove(key: name, number: number)
        case .life:
            if key == nil { return expiry }
            guard let name, let file, let number else { return nil }
            return .life(key: name, file: file, change: number, life, update)
        case .used:
            guard let name, let file, let number, let used else { return nil }
            return .used(
                key: name, file: file, change: number, at: Timestamp(milliseconds: used),
                decision: rank.flatMap { Rank(packed: $0) }.map { Rank.Decision(rank: $0, number: change ?? 0) },
                expires: life.expires)
        case .clear:
            guard let number, let scope else { return nil }
            // A clear with unknown fields may mean less than it seems to.
            return unknown.isEmpty ? .clear(scope, number: number) : .unknown
        case .obsolete:
            guard let file, file > 0, let place = Self.place(place) else { return nil }
            return .obsolete(file: FileID(number: file, place: place), of: name)
        case .closed:
            let totals = totals.map { SavedTotals(whole: $0, namespaces: namespaces) }
            return number.map { .closed(number: $0, totals: totals) }
        case .groups:
            guard let generation, let seed, let start, let groups, groups.count.nonzeroBitCount == 1,
                groups.count <= GroupTable.mostGroups
            else { return nil }
            return .groups(
                GroupTable(
                    generation: generation, seed: seed, start: Int(start), groups: groups, namespaces: namespaces,
                    journals: journals ?? [], settled: number ?? 0))
        case nil:
            return .unknown
        }
    }

    /// A header of a newer version may have other fields; only its version matters then.
    private func header(_ version: UInt64) -> Record? {
        if version > Record.lastVersion { return .header(version: version, generation: 0, last: 0) }
        guard let generation, let number else { return nil }
        return .header(version: version, generation: generation, last: number, boot: boot)
    }

    private var keyNamespace: Namespace { namespace.map { Namespace($0) } ?? .none }

    private var name: Key? {
        key.map { Key($0, in: keyNamespace) }
    }

    /// The scope of a clear. An empty namespace means the part without one, an absent namespace everything.
    private var scope: ClearScope? {
        if let tags {
            return tags.count == 1 && namespace != "" ? .tag(Key(tags[0], in: keyNamespace)) : nil
        }
        return namespace.map { .namespace(Namespace($0)) } ?? .everything
    }

    /// The end of all lives in a scope. With unknown fields it may mean less than it seems to, so it counts as damage
    /// and the tombstone decides.
    private var expiry: Record? {
        guard let number, let scope, let expires, file == nil, unknown.isEmpty else { return nil }
        return .expire(scope, number: number, at: Timestamp(milliseconds: expires))
    }

    private var update: Attachments.Update? {
        if metadata == nil && keptStale == nil { return nil }
        return Attachments.Update(metadata: metadata ?? [:], keptStale: max(0, keptStale ?? 0))
    }

    private var traits: Attachments.Traits {
        let keyNamespace = keyNamespace
        return Attachments.Traits(
            namespace: keyNamespace, tags: (tags ?? []).map { Key($0, in: keyNamespace) },
            keptStale: max(0, keptStale ?? 0),
            isAbsent: absent == 1, mustRevalidate: mustRevalidate == 1, coding: coding.map { Coding($0) })
    }

    private var life: Life { Self.life(expires: expires, ttl: ttl) }

    static func life(expires: Int64?, ttl: Int64?) -> Life {
        Life(expires: Timestamp(milliseconds: expires ?? Life.unlimited), ttl: ttl ?? Life.unlimited)
    }

    private var attachments: Attachments? {
        let isBare =
            namespace == nil && tags == nil && keptStale == nil && absent == nil && mustRevalidate == nil
            && coding == nil
        if isBare, metadata == nil, unknown.isEmpty { return nil }
        return Attachments(isBare ? .init() : traits, metadata: metadata ?? [:], unknown: unknown)
    }

    private var entry: IndexEntry? {
        Self.entry(
            key: key, number: number, change: change, stored: stored, life: life, used: used, rank: rank, size: size,
            checksum: checksum, place: place, attachments: attachments)
    }

    /// Nil when the field is damaged.
    private static func place(_ packed: UInt64?) -> Place? {
        guard let packed else { return .ownFile }
        return Place(packed: packed)
    }

    /// The entry that the fields of a set form; nil when one is missing or out of bounds.
    static func entry(
        key: String?, number: UInt64?, change: UInt64?, stored: Int64?, life: Life, used: Int64?,
        rank: UInt64?, size: Int64?, checksum: UInt64?, place: UInt64?, attachments: @autoclosure () -> Attachments?
    ) -> IndexEntry? {
        guard let key, let number, number > 0, let stored, let size, let checksum, size >= 0,
            size <= Int64(largestSize),
            let place = Self.place(place)
        else { return nil }
        return IndexEntry(
            keyText: key, file: FileID(number: number, place: place), change: change ?? number,
            stored: Timestamp(milliseconds: stored),
            life: life,
            used: Timestamp(milliseconds: used ?? stored), rank: rank.flatMap { Rank(packed: $0) } ?? Rank(),
            size: Int(size), checksum: checksum,
            attachments: attachments())
    }
}
