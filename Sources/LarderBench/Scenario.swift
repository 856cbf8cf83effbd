/// Something that is measured, beside what it is compared with.
struct Scenario: Sendable {
    /// The prepared state.
    struct Run {
        /// Runs one round of both, in turns.
        let round: (_ number: Int) async throws -> (own: Samples, floor: Samples)
        var close: () async throws -> Void = {}
    }

    let name: String
    /// Bytes of a value; nil where there is none.
    var size: Int?
    /// Entries, where it is their number that matters.
    var entries: Int?
    let unit: Unit
    /// The name of the comparison; "" for none.
    let floor: String
    var target = Target.none
    /// The target is meant for a directory in memory: elsewhere the disk decides.
    var isForMemory = false
    /// Rounds are cut to so many.
    var mostRounds = Int.max
    /// Makes everything ready.
    let prepare: @Sendable (Folder) async throws -> Run

    /// Scenarios that delete many files come late: on some file systems creating files is slow for minutes after that.
    static var all: [Scenario] {
        disk + threads + growth + byHand + sqlite + replacing + memory + front + resident
    }

    /// As the table and `--scenario` know it.
    var title: String { [name, size.map(Figure.bytes)].compactMap(\.self).joined(separator: " ") }

    enum Unit: String {
        case ms, us, ns, bytes

        /// Nanoseconds, or bytes, in one of it.
        var scale: Double {
            switch self {
            case .ms: 1_000_000
            case .us: 1_000
            case .ns, .bytes: 1
            }
        }
    }

    enum Target {
        /// At most so many times what it is compared with.
        case ratio(Double)
        /// At most so much more than what it is compared with. Nanoseconds or bytes.
        case above(Double)
        /// At most so much. Nanoseconds or bytes.
        case most(Double)
        /// The slowest one at most so long. Nanoseconds.
        case longest(Double)
        case none
    }
}
