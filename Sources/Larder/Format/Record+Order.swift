/// The order of records from several journals.
extension Record {
    /// A record, and its place in the order in which the journals' records are applied.
    struct Placed: Sendable {
        let record: Record
        fileprivate let number: UInt64
        fileprivate let rank: Int
        fileprivate var position = 0
    }

    /// Places the records of one journal, in its order. For each key the order of numbers is that of commits.
    struct Placer {
        /// The key and number of the last record, if that was an `obsolete`: the set that follows takes it back.
        private var takenBack: (key: Key, number: UInt64)?

        mutating func place(_ record: Record) -> Placed {
            let before = takenBack
            takenBack = nil
            switch record {
            case .set(let entry):
                if let before, before.key == entry.key {
                    return Placed(record: record, number: before.number, rank: 4)
                }
                // Not by its life, which may be newer than a removal: the entry was renewed, then moved.
                return Placed(record: record, number: entry.file.number, rank: 0)
            case .used(_, let file, let change, _, let decision?, _):
                return Placed(record: record, number: max(file, change, decision.number), rank: 2)
            case .life:
                return Placed(record: record, number: record.highestNumber, rank: 1)
            case .obsolete(let file, let key):
                takenBack = key.map { ($0, file.number) }
                return Placed(record: record, number: file.number, rank: 3)
            default:
                return Placed(record: record, number: record.highestNumber, rank: 2)
            }
        }
    }

    /// Sorts records from several journals, so that each is applied after those that it builds on. O(n log n).
    static func inOrder(_ records: [Placed]) -> [Record] {
        var records = records
        for position in records.indices { records[position].position = position }
        records.sort { ($0.number, $0.rank, $0.position) < ($1.number, $1.rank, $1.position) }
        return records.map(\.record)
    }
}
