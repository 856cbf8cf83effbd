import Foundation
import Larder
import LarderFiles

/// Opening a cache, and the first get: the cost must not grow with the number of entries. Beside it, version 1 of the
/// format, whose index is read whole, and databases with as many entries.
extension Scenario {
    static var opening: [Scenario] {
        let closed = counts.flatMap { entries in
            OpenedJournal.all(entries).map { open(entries, $0, after: .closed) }
                + [openWhole(entries), openSQLite(entries), openLMDB(entries)].compactMap(\.self)
        }
        let killed = counts.flatMap { entries in
            OpenedJournal.all(entries).map { open(entries, $0, after: .killed) }
        }
        let expired = [100_000, 1_000_000].flatMap { [openHalfExpired($0), openWholeHalfExpired($0)] }
        return closed + expired + killed
            + [lostIndex(isWhole: false), lostIndex(isWhole: true)]
    }

    /// The number of openings in a round; 1 where they are long.
    static let openings = 5

    static func openingName(_ entries: Int, _ journal: OpenedJournal, after end: SyntheticDirectory.End) -> String {
        let name = (end == .killed ? "open after kill, " : "open, ") + Figure.short(entries)
        return switch journal {
        case .empty: end == .killed ? name : "\(name) entries"
        case .some: "\(name), 1k in journal"
        case .longest: "\(name), full journal"
        }
    }

    private static func open(
        _ entries: Int, _ journal: OpenedJournal, after end: SyntheticDirectory.End
    ) -> Scenario {
        let records = journal.records(entries)
        return Scenario(
            name: openingName(entries, journal, after: end), entries: entries, unit: .ms,
            floor: "reading the journal and one XXH64 pass", target: openingTarget(entries, records, after: end),
            isLong: end == .killed && entries >= 100_000, isOnlyInMemory: end == .killed && entries >= 1_000_000
        ) { folder in
            let directory = SyntheticDirectory(folder.own, entries: entries)
            try directory.writeGrouped(journal: records, end)
            let index = folder.url.appendingPathComponent("index", isDirectory: true)
            try directory.saveIndex(to: index)
            guard let journal = try directory.journals().first else { throw BenchFailure("there is no journal") }
            return Run { round in
                var samples = (own: Samples(), floor: Samples())
                for number in 0..<(end == .closed ? openings : 1) {
                    try directory.restoreIndex(from: index)
                    try timing(&samples.floor) { try readWhole(folder.own.appendingPathComponent(journal)) }
                    try timeOpening(folder.own, round + number, &samples.own)
                }
                return samples
            }
        }
    }

    /// Journal records up to a thousand are included.
    private static func openingTarget(
        _ entries: Int, _ records: Int, after end: SyntheticDirectory.End
    ) -> Target {
        let base: Double
        switch entries {
        case 100_000: base = 2_000_000
        case 1_000_000: base = 12_000_000
        default: return .none
        }
        let most = min(base + 200 * Double(max(0, records - 1_000)), 60_000_000)
        return .most(end == .killed ? 3 * most : most)
    }

    static func wholeName(_ entries: Int) -> String { "open, \(Figure.short(entries)), format 1, read whole" }

    private static func openWhole(_ entries: Int) -> Scenario {
        Scenario(
            name: wholeName(entries), entries: entries, unit: .ms, floor: "reading the manifest and one XXH64 pass"
        ) { folder in
            let directory = SyntheticDirectory(folder.own, entries: entries)
            try directory.write()
            let index = folder.url.appendingPathComponent("index", isDirectory: true)
            try directory.saveIndex(to: index)
            return Run { round in
                var samples = (own: Samples(), floor: Samples())
                try directory.restoreIndex(from: index)
                try timeOpening(folder.own, round, &samples.own)
                try timing(&samples.floor) { try readWhole(directory.manifest) }
                return samples
            }
        }
    }

    private static func openHalfExpired(_ entries: Int) -> Scenario {
        Scenario(
            name: "open, \(Figure.short(entries)), half expired", entries: entries, unit: .ms,
            floor: "the same with none expired", target: openingTarget(entries, 0, after: .closed)
        ) { folder in
            let directory = SyntheticDirectory(folder.own, entries: entries, expired: entries / 2)
            try directory.writeGrouped(journal: 0)
            try SyntheticDirectory(folder.floor, entries: entries).writeGrouped(journal: 0)
            let index = folder.url.appendingPathComponent("index", isDirectory: true)
            try directory.saveIndex(to: index)
            return Run { _ in
                var samples = (own: Samples(), floor: Samples())
                for _ in 0..<openings {
                    try directory.restoreIndex(from: index)
                    // An entry that is not expired: the file of another one is deleted in the background.
                    try timeOpening(folder.own, 0, &samples.own)
                    try timeOpening(folder.floor, 0, &samples.floor)
                }
                return samples
            }
        }
    }

    private static func openWholeHalfExpired(_ entries: Int) -> Scenario {
        Scenario(
            name: "open, \(Figure.short(entries)), format 1, half expired", entries: entries, unit: .ms,
            floor: "the same with none expired", target: .ratio(1), isLong: entries >= 1_000_000
        ) { folder in
            try SyntheticDirectory(folder.floor, entries: entries).write()
            return Run { round in
                var samples = (own: Samples(), floor: Samples())
                try SyntheticDirectory(folder.own, entries: entries, expired: entries / 2).write()
                try timeOpening(folder.floor, 0, &samples.floor)
                try timeOpening(folder.own, 0, &samples.own)
                try FileManager.default.removeItem(at: folder.own)
                return samples
            }
        }
    }

    /// Opens a cache whose index was deleted, with a file for each entry: until the first get returns, which may not
    /// find the value yet, or until all values are found again and saved.
    private static func lostIndex(isWhole: Bool) -> Scenario {
        let entries = 100_000
        return Scenario(
            name: "lost index, \(Figure.short(entries)), " + (isWhole ? "all back" : "first call"), entries: entries,
            unit: .ms, floor: "listing the names", target: .most(isWhole ? 600_000_000 : 50_000_000),
            isLong: true
        ) { folder in
            let cache = try folder.cache()
            let value = Data(Content.bytes(100))
            for number in 1...entries { try cache.setData(value, forKey: Content.key(number)) }
            try cache.close()
            let directory = SyntheticDirectory(folder.own, entries: entries)
            return Run { round in
                var samples = (own: Samples(), floor: Samples())
                try directory.removeIndex()
                timing(&samples.floor) { precondition(list(folder.own.appendingPathComponent("entries")) == entries) }
                let cache: DiskCache
                if isWhole {
                    cache = try timing(&samples.own) {
                        let cache = try folder.cache()
                        try cache.flush()
                        return cache
                    }
                } else {
                    cache = try timing(&samples.own) {
                        let cache = try folder.cache()
                        _ = cache.data(forKey: Content.key(entries / 2 + round))
                        return cache
                    }
                    try cache.flush()
                }
                guard cache.count == entries else { throw BenchFailure("\(cache.count) of \(entries) are back") }
                try cache.close()
                return samples
            }
        }
    }

    /// Returns the number of names.
    private static func list(_ folder: URL) -> Int {
        guard let stream = opendir(folder.path) else { return 0 }
        defer { closedir(stream) }
        var count = 0
        while let entry = readdir(stream) { if entry.pointee.d_name.0 != CChar(UInt8(ascii: ".")) { count += 1 } }
        return count
    }

    private static func readWhole(_ file: URL) throws {
        let bytes = try Data(contentsOf: file)
        precondition(bytes.withUnsafeBytes { XXH64.hash($0) } != 0)
    }

    /// Opens a cache and reads a value, another one in each round.
    private static func timeOpening(_ url: URL, _ round: Int, _ samples: inout Samples) throws {
        let key = Content.key(1 + round % SyntheticDirectory.filed)
        let cache = try timing(&samples) {
            let cache = try DiskCache(directory: url)
            precondition(cache.data(forKey: key) != nil)
            return cache
        }
        try cache.close()
    }
}

/// The length of the journal that an opening finds.
enum OpenedJournal: CaseIterable {
    /// A header, and the mark of a clean close.
    case empty
    /// A thousand records.
    case some
    /// As many as a close may leave.
    case longest

    /// The lengths that are possible beside so many entries.
    static func all(_ entries: Int) -> [OpenedJournal] {
        allCases.filter { $0 == .empty || SyntheticDirectory.longestJournal(entries) > 1_000 }
    }

    func records(_ entries: Int) -> Int {
        switch self {
        case .empty: 0
        case .some: 1_000
        case .longest: SyntheticDirectory.longestJournal(entries)
        }
    }
}
