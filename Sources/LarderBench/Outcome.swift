import Foundation

/// The result of a scenario's rounds.
struct Outcome {
    private struct Round {
        let median: Double
        let longest: Double
        let floor: Double

        var ratio: Double { median / max(floor, 1) }
    }

    let scenario: Scenario
    private var samples = Samples()
    private var rounds: [Round] = []
    private let isJudged: Bool
    private let scale: Double

    /// A target meant for other places is dropped.
    init(_ scenario: Scenario, in place: Place) {
        self.scenario = scenario
        isJudged = place.isInMemory || !scenario.isForMemory
        scale = scenario.unit.scale
    }

    mutating func add(_ round: (own: Samples, floor: Samples)) {
        samples.add(round.own)
        rounds.append(
            Round(median: round.own.median, longest: round.own.longest, floor: round.floor.median))
    }

    /// The median of the rounds' medians, in the scenario's unit, like all values below.
    var value: Double { Self.middle(rounds.map(\.median)) / scale }
    var spread: (Double, Double) {
        let medians = rounds.map(\.median)
        return ((medians.min() ?? 0) / scale, (medians.max() ?? 0) / scale)
    }
    var p50: Double { samples.median / scale }
    var p99: Double { samples.percentile(0.99) / scale }
    var longest: Double { samples.longest / scale }
    /// Nil without a comparison.
    var floor: Double? { scenario.floor.isEmpty ? nil : Self.middle(rounds.map(\.floor)) / scale }

    /// The median of the rounds' ratios: a disturbance of a round affects both sides.
    var ratio: Double? { scenario.floor.isEmpty ? nil : Self.middle(rounds.map(\.ratio)) }

    /// Whether the target holds; nil without one.
    var holds: Bool? { measured(Self.middle, longest: { $0.max() ?? 0 }).map { $0.value <= $0.target } }

    /// Whether even the best round is more than twice above the target, through no fault of the scheduler.
    var isFarOff: Bool {
        if scenario.hasWakes { return false }
        let best: ([Double]) -> Double = { $0.min() ?? 0 }
        return measured(best, longest: best).map { $0.value > 2 * $0.target } ?? false
    }

    /// The figure that the target is about, over all rounds.
    private func measured(
        _ together: ([Double]) -> Double, longest: ([Double]) -> Double
    ) -> (value: Double, target: Double)? {
        if !isJudged { return nil }
        return switch scenario.target {
        case .ratio(let most): (together(rounds.map(\.ratio)), most)
        case .above(let most): (together(rounds.map { $0.median - $0.floor }), most)
        case .most(let most): (together(rounds.map(\.median)), most)
        case .longest(let most): (longest(rounds.map(\.longest)), most)
        case .none: nil
        }
    }

    private static func middle(_ values: [Double]) -> Double {
        let sorted = values.sorted()
        if sorted.isEmpty { return 0 }
        let half = sorted.count / 2
        return sorted.count.isMultiple(of: 2) ? (sorted[half - 1] + sorted[half]) / 2 : sorted[half]
    }
}

extension Scenario {
    /// Runs one round that does not count, to warm the caches of system and processor, and then `rounds` that do.
    func measure(in folder: Folder, of place: Place, rounds: Int, _ tell: (_ round: Int) -> Void) async throws
        -> Outcome
    {
        let run = try await prepare(folder)
        var outcome = Outcome(self, in: place)
        for number in 0...min(rounds, mostRounds) {
            tell(number)
            let round = try await run.round(number)
            if number > 0 { outcome.add(round) }
        }
        try await run.close()
        return outcome
    }
}
