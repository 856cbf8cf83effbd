import LarderFiles

/// Every file name in a cache's directory.
///
///     manifest.json, manifest.plist     the last saved index, in the one format or the other
///     manifest-<generation>.tmp         the next one, while it is being written
///     journal-<generation>.jsonl        every change since
///     CACHEDIR.TAG                      tells backups that they need not copy the directory
///     sizeLimit                         the limit that it got when it was created; see `DefaultSizeLimit`
///     evictions                         what the evictor has learned; see `SavedRegrets`
///     shared                            what the processes that use the directory know of each other
///     entries/<sequence number>         one file per entry
///     entries/10<number>                a file set aside: the last one of a removed key, or one that cannot be read
///     entries/40<number>                the tombstone of a namespace, a tag or a key
///     entries/80<number>                a staged copy, until it has its footer and its number
///     entries/segments/<number>         short values, many in a file; see `SegmentFormat`
///     trash/<sequence number>/          directories that removeAll moved here, to be deleted
///
/// Generations and sequence numbers are 16 lower-case hex digits.
enum DirectoryLayout: Hashable {
    case manifest(ManifestFormat)
    case temporaryManifest(UInt64)
    case journal(UInt64)
    case evictions
    case shared
    case entries
    case trash

    /// Names that an empty directory may contain: files that file managers and file systems leave, the tag, and the
    /// limit.
    static let ignored: Set<FileName> = [.text(".DS_Store"), .text(".localized"), .text("lost+found"), tag, sizeLimit]

    /// The limit of a cache that was created by its name. It proves nothing, and is never replaced or deleted.
    static let sizeLimit = FileName.text("sizeLimit")

    /// The mark of a directory that backups may skip: see bford.info/cachedir. It proves nothing, and is never replaced
    /// or deleted.
    static let tag = FileName.text("CACHEDIR.TAG")

    static let tagContent = Array(
        """
        Signature: 8a477f597d28d172789f06886806bc55
        # This directory is a cache of Larder. For information about this file, see https://bford.info/cachedir/

        """.utf8)

    /// True for the name of something in the directory of a cache.
    static func isOurs(_ name: String) -> Bool {
        let name = FileName.text(name)
        return DirectoryLayout(name) != nil || name == tag || name == sizeLimit
    }

    /// The name of `evictions` while it is written. No manifest has that generation, and openings delete it as they do
    /// with those.
    static let temporaryEvictions = temporaryManifest(0)

    /// The mark in the number of a file that is being copied in. No record has such a number.
    private static let stagedMark: UInt64 = 1 << 63

    /// The mark in the number of a tombstone, so that an opening finds it by its name.
    private static let tombstoneMark: UInt64 = 1 << 62

    static func tombstoneNumber(_ number: UInt64) -> UInt64 { number | tombstoneMark }

    /// Returns the number of a change from the name of its tombstone; nil for any other name.
    static func number(ofTombstone name: UInt64) -> UInt64? {
        guard name & tombstoneMark != 0, case let number = name & ~tombstoneMark, number <= Record.lastNumber else {
            return nil
        }
        return number
    }

    /// The mark in the number of a file that is set aside. Such a file is never adopted, and the older files of its key
    /// are dead.
    private static let asideMark: UInt64 = 1 << 60

    static func asideNumber(_ number: UInt64) -> UInt64 { number | asideMark }

    /// Returns the number of a file that is set aside; nil for any other name.
    static func number(ofAside name: UInt64) -> UInt64? {
        guard name & asideMark != 0, case let number = name & ~asideMark, number > 0, number <= Record.lastNumber else {
            return nil
        }
        return number
    }

    static func stagedNumber(_ number: UInt64) -> UInt64 { number | stagedMark }

    static func isStaged(_ number: UInt64) -> Bool { Self.number(ofStaged: number) != nil }

    /// Returns the number from the name of a file that is being copied in; nil for any other name.
    static func number(ofStaged name: UInt64) -> UInt64? {
        guard name & stagedMark != 0, case let number = name & ~stagedMark, number <= Record.lastNumber else {
            return nil
        }
        return number
    }

    var name: FileName {
        switch self {
        case .manifest(.propertyList): .text("manifest.plist")
        case .manifest: .text("manifest.json")
        case .temporaryManifest(let generation): .text("manifest-\(FileName.number(generation)).tmp")
        case .journal(let generation): .text("journal-\(FileName.number(generation)).jsonl")
        case .evictions: .text("evictions")
        case .shared: .text("shared")
        case .entries: .text("entries")
        case .trash: .text("trash")
        }
    }

    init?(_ name: FileName) {
        guard case .text(let text) = name else { return nil }
        switch text {
        case "manifest.json": self = .manifest(.json)
        case "manifest.plist": self = .manifest(.propertyList)
        case "evictions": self = .evictions
        case "shared": self = .shared
        case "entries": self = .entries
        case "trash": self = .trash
        default:
            if let generation = Self.number(in: text, after: "journal-", before: ".jsonl") {
                self = .journal(generation)
            } else if let generation = Self.number(in: text, after: "manifest-", before: ".tmp") {
                self = .temporaryManifest(generation)
            } else {
                return nil
            }
        }
    }

    private static func number(in text: String, after prefix: String, before suffix: String) -> UInt64? {
        guard text.hasPrefix(prefix), text.hasSuffix(suffix) else { return nil }
        guard case .number(let number) = FileName(String(text.dropFirst(prefix.count).dropLast(suffix.count))) else {
            return nil
        }
        return number <= Record.lastNumber ? number : nil
    }
}
