import LarderFiles

/// One line about the cache: the same text in the manifest, in the journal and (for a set) in the footer of the entry
/// file.
///
/// A record is a JSON object on one line that ends with its own check:
///
///     {"k":"a/b","n":17,"s":1763632800000,"e":1763719200000,"t":86400000,"z":5,"h":"26c7827d889f6da3","c":"0f2a…"}
///
/// | field    | meaning                                                                                  |
/// | -------- | ---------------------------------------------------------------------------------------- |
/// | `larder` | in a header: the format's version, 1                                                     |
/// | `g`      | in a header: the generation                                                              |
/// | `o`      | the operation: `remove`, `life`, `used`, `clear`, `obsolete`, `closed`; absent in a header and a set |
/// | `k`      | key                                                                                      |
/// | `ns`     | the namespace that key and tags belong to, or that a `clear` is of; absent: none         |
/// | `n`      | sequence number: of a set, the name of its file; of `used`, the entry's last change; in a header, the last taken |
/// | `f`      | of `life`, `used` and `obsolete`: the file concerned                                     |
/// | `l`      | in a manifest, of an entry whose life was renewed: the number of that change             |
/// | `s`      | stored at, milliseconds since 1970, as all times                                         |
/// | `e`      | expires at; absent: never                                                                |
/// | `t`      | the life asked for, milliseconds; absent: until a date, or for ever                      |
/// | `u`      | last used at; absent: when stored                                                        |
/// | `z`      | payload bytes                                                                            |
/// | `h`      | XXH64 of the payload, 16 hex digits                                                      |
/// | `m`      | metadata: an object of strings; of `life`: what it is from now on                        |
/// | `tg`     | tags: an array of strings; of `clear`: the one that it is of                             |
/// | `ks`     | kept stale: for how long the entry is kept beyond its expiry, milliseconds; absent: 0    |
/// | `ab`     | 1: the entry says that there is no value                                                 |
/// | `mr`     | 1: must revalidate; what has expired is not to be answered                               |
/// | `c`      | XXH64 of the line before `,"c"`, 16 hex digits; always the last field                    |
///
/// Reserved: `w` (where the payload stands). Fields that are not known are kept as they are. The check, its place and
/// the header stay the same in every version.
enum Record: Sendable {
    case header(version: UInt64, generation: UInt64, last: UInt64)
    case set(IndexEntry)
    case remove(key: Key, number: UInt64)
    case life(key: Key, file: UInt64, change: UInt64, Life, Attachments.Update? = nil)
    /// Last use, and the expiry that came of it where lives slide; that holds for the life of `change` alone.
    case used(key: Key, file: UInt64, change: UInt64, at: Timestamp, expires: Timestamp)
    /// Everything in a scope is gone that has a lower number.
    case clear(ClearScope, number: UInt64)
    /// A file is dead, whatever its footer says, and waits to be unlinked; with the key, the entry must not use it
    /// either.
    case obsolete(file: UInt64, of: Key?)
    /// The last record of a session that ended in order: the entries and the files agree.
    case closed(number: UInt64)
    /// A valid record of an operation that this version does not know.
    case unknown

    static let version: UInt64 = 1
    /// A larger number in a record is damage, a larger name foreign; no cache gets there, and JSON readers cannot tell
    /// them.
    static let lastNumber: UInt64 = 1 << 53

    enum Operation: String {
        case remove, life, used, clear, obsolete, closed
    }

    /// The highest sequence number that the record tells of.
    var highestNumber: UInt64 {
        switch self {
        case .header(_, _, let last): last
        case .set(let entry): max(entry.file, entry.change)
        case .remove(_, let number), .clear(_, let number), .closed(let number): number
        case .life(_, let file, let change, _, _): max(file, change)
        case .used(_, let file, let change, _, _): max(file, change)
        case .obsolete(let file, _): file
        case .unknown: 0
        }
    }
}
