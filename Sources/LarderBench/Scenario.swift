/// Something that is measured, beside what it is compared with.
struct Scenario: Sendable {
    /// What has been made ready.
    struct Run {
        /// Runs one round of both, in turns.
        let round: (_ number: Int) async throws -> (own: Samples, floor: Samples)
        var close: () async throws -> Void = {}
    }

    let name: String
    /// Bytes of a value; nil where there is none.
    var size: Int?
    let unit: Unit
    /// What it is compared with.
    let floor: String
    let target: Target
    /// Makes everything ready.
    let prepare: @Sendable (Folder) async throws -> Run

    static var all: [Scenario] { disk + memory + front }

    enum Unit: String {
        case us, ns

        var nanoseconds: Double { self == .us ? 1000 : 1 }
    }

    enum Target {
        /// At most so many times what it is compared with.
        case ratio(Double)
        /// At most so much more than what it is compared with. Nanoseconds.
        case above(Double)
        /// At most so long. Nanoseconds.
        case time(Double)
        case none
    }
}
