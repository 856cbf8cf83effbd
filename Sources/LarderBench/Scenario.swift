/// A measured operation and its comparison, the floor.
struct Scenario: Sendable {
    /// The prepared state.
    struct Run {
        /// Runs one round of both, in turns.
        let round: (_ number: Int) async throws -> (own: Samples, floor: Samples)
        var close: () async throws -> Void = {}
    }

    let name: String
    /// The size of a value in bytes; nil without one.
    var size: Int?
    /// The number of entries, if it matters.
    var entries: Int?
    let unit: Unit
    /// The name of the comparison; "" for none.
    let floor: String
    var target = Target.none
    /// The target applies only to a directory in memory: elsewhere the disk dominates.
    var isForMemory = false
    /// Preparing it takes long: it is left out when the targets are guarded.
    var isLong = false
    /// It makes a million files, which takes minutes on a disk.
    var isOnlyInMemory = false
    /// Threads wake each other in it, or other processes run beside it, and the scheduler decides for a whole run how
    /// long that takes: not guarded.
    var hasWakes = false
    /// The maximum number of rounds.
    var mostRounds = Int.max
    /// Prepares the run.
    let prepare: @Sendable (Folder) async throws -> Run

    /// Scenarios that delete many files come late: on some file systems creating files is slow for minutes after that.
    static var all: [Scenario] {
        disk + segments + threads + growth + opening + byHand + sqlite + lmdb + redis + processes + replacing
            + memory + front + coders + http + resident
    }

    /// The title in the table and for `--scenario`.
    var title: String { [name, size.map(Figure.bytes)].compactMap(\.self).joined(separator: " ") }

    enum Unit: String, CustomStringConvertible {
        case ms, us, ns, bytes
        case megabytes = "MB"

        var description: String { rawValue }

        /// Nanoseconds, or bytes, per unit.
        var scale: Double {
            switch self {
            case .ms, .megabytes: 1_000_000
            case .us: 1_000
            case .ns, .bytes: 1
            }
        }
    }

    enum Target {
        /// At most this multiple of the floor.
        case ratio(Double)
        /// At most this much above the floor. Nanoseconds or bytes.
        case above(Double)
        /// At most this much. Nanoseconds or bytes.
        case most(Double)
        /// The slowest operation takes at most this long. Nanoseconds.
        case longest(Double)
        case none
    }
}
