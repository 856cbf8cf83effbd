import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("One function applies a change, in whatever order it comes")
struct ApplyTests {
    private static let keys = ["a", "b", "c"].map { Key($0) }
    private static let start: Int64 = 1_763_632_800_000

    /// A history of some keys. A change comes after the one that it names: a renewal after its value, a use after the
    /// life that it extends.
    private struct History {
        var records: [Record] = []
        /// The positions of the records that a record names.
        var named: [Int?] = []

        init(using generator: inout SeededGenerator) {
            var lives: [Int: [(file: UInt64, change: UInt64, ttl: Int64, position: Int)]] = [:]
            for number in 1...30 as ClosedRange<UInt64> {
                let place = Int.random(in: 0..<keys.count, using: &generator)
                let key = keys[place]
                let ttl = Int64.random(in: 1...1_000, using: &generator)
                let expires = Timestamp(milliseconds: start + Int64(number) + ttl)
                let known = lives[place, default: []].randomElement(using: &generator)
                switch (Int.random(in: 0..<10, using: &generator), known) {
                case (0..<2, _):
                    append(.remove(key: key, number: number), nil)
                case (2..<4, let known?):
                    // As a sweep does that has seen this file, and none of the later ones.
                    append(.remove(key: key, number: known.file + 1), known.position)
                case (4..<6, let known?):
                    lives[place]?.append((known.file, number, ttl, records.count))
                    let life = Life(expires: expires, ttl: ttl)
                    append(.life(key: key, file: known.file, change: number, life), known.position)
                case (6..<8, let known?):
                    let time = Timestamp(milliseconds: start + Int64(number))
                    let used = Record.used(
                        key: key, file: known.file, change: known.change, at: time,
                        expires: time.advanced(byMilliseconds: known.ttl))
                    append(used, known.position)
                default:
                    lives[place, default: []].append((number, number, ttl, records.count))
                    let now = Timestamp(milliseconds: start + Int64(number))
                    append(
                        .set(
                            IndexEntry(
                                keyText: key.text, file: FileID(number), change: number, stored: now,
                                life: Life(expires: expires, ttl: ttl), used: now, size: Int(number), checksum: number)),
                        nil)
                }
            }
        }

        private mutating func append(_ record: Record, _ position: Int?) {
            records.append(record)
            named.append(position)
        }

        /// The records in another order, with some of the last ones again.
        func shuffled(using generator: inout SeededGenerator) -> [Record] {
            var order: [Int] = []
            var left = Set(records.indices)
            while !left.isEmpty {
                let free = left.filter { named[$0].map { !left.contains($0) } ?? true }.sorted()
                let next = free.randomElement(using: &generator)!
                order.append(next)
                left.remove(next)
            }
            return (order + order[Int.random(in: 0...order.count, using: &generator)...]).map { records[$0] }
        }

        /// The entry of a key by the rules: the file with the highest number that is not dead, with the life of the
        /// highest change and the last use.
        func expected(_ key: Key) -> IndexEntry? {
            var dead: UInt64 = 0
            for case .remove(key, let number) in records { dead = max(dead, number) }
            var entry: IndexEntry?
            for case .set(let found) in records where found.key == key && found.file >= dead {
                if entry.map({ $0.file < found.file }) ?? true { entry = found }
            }
            for case .life(key, let file, let change, let life, _) in records {
                if let known = entry, known.file == file, known.change < change {
                    (entry!.life, entry!.change) = (life, change)
                }
            }
            for case .used(key, let file, let change, let time, _, let expires) in records {
                guard let known = entry, known.file == file else { continue }
                entry!.used = max(known.used, time)
                if known.change == change { entry!.life.expires = max(known.life.expires, expires) }
            }
            return entry
        }
    }

    private static func text(_ entry: IndexEntry?) -> String? {
        entry.map { "\($0.file.number) \($0.change) \($0.life) \($0.used) \($0.size)" }
    }

    @Test("an index that is read anew notes the files of what was cleared: its reader may have to delete them")
    func clearedFiles() {
        let now = Timestamp(milliseconds: Self.start)
        var replay = Replay(at: now)
        let entry = IndexEntry(
            keyText: "a", file: FileID(2), change: 2, stored: now,
            life: Life(expires: now.advanced(byMilliseconds: 1000), ttl: 1000), used: now, size: 1, checksum: 1)
        replay.applyOfJournal(.set(entry))
        replay.applyOfJournal(.clear(.namespace(.none), number: 3))
        replay.finish()
        replay.markSupersededObsolete()
        #expect(replay.shards[Key("a").shard].debts.files.map(\.file) == [FileID(2)])
        #expect(replay.kept.entries == 0)
    }

    @Test("a shuffled history, a part of it twice, leaves what its rules say")
    func shuffled() throws {
        for round in 0..<300 {
            let seed = RunSeed.seed(round)
            var generator = SeededGenerator(seed: seed)
            let history = History(using: &generator)
            for isLoading in [true, false] {
                var shard = Shard()
                shard.graves = Graves(areKept: true)
                if isLoading { shard.table.beginLoading() }
                for record in history.shuffled(using: &generator) {
                    _ = shard.apply(record, of: try #require(record.key))
                }
                var total = 0
                for key in Self.keys {
                    let expected = history.expected(key)
                    #expect(
                        Self.text(shard.table.entry(key)) == Self.text(expected),
                        "seed \(seed), \(key.text), loading: \(isLoading)")
                    total += expected?.size ?? 0
                    let owed = shard.debts.files(of: key).map(\.file) + shard.superseded.map(\.file)
                    if let live = expected?.file { #expect(!owed.contains(live), "seed \(seed), \(key.text)") }
                }
                #expect(shard.table.totals.size == total, "seed \(seed), loading: \(isLoading)")
            }
        }
    }
}
