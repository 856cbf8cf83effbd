import Foundation

/// What a scenario's rounds have come to.
struct Outcome {
    let scenario: Scenario
    private var own = Samples()
    private var medians: [Double] = []
    private var floors: [Double] = []

    init(_ scenario: Scenario) {
        self.scenario = scenario
    }

    mutating func add(_ round: (own: Samples, floor: Samples)) {
        own.add(round.own)
        medians.append(round.own.median)
        floors.append(round.floor.median)
    }

    /// The median of the rounds' medians, in the scenario's unit, as all that follows.
    var value: Double { Self.middle(medians) / scenario.unit.nanoseconds }
    var spread: (Double, Double) {
        ((medians.min() ?? 0) / scenario.unit.nanoseconds, (medians.max() ?? 0) / scenario.unit.nanoseconds)
    }
    var p99: Double { own.percentile(0.99) / scenario.unit.nanoseconds }
    var longest: Double { own.longest / scenario.unit.nanoseconds }
    var floor: Double { Self.middle(floors) / scenario.unit.nanoseconds }

    /// The median of the rounds' ratios: what disturbs a round disturbs both.
    var ratio: Double? {
        if floors.allSatisfy({ $0 == 0 }) { return nil }
        return Self.middle(zip(medians, floors).map { $0 / max($1, 1) })
    }

    /// Whether the target holds; nil: there is none.
    var holds: Bool? {
        switch scenario.target {
        case .ratio(let most): ratio.map { $0 <= most }
        case .above(let most): (value - floor) * scenario.unit.nanoseconds <= most
        case .time(let most): value * scenario.unit.nanoseconds <= most
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
    func measure(in folder: Folder, rounds: Int) async throws -> Outcome {
        let run = try await prepare(folder)
        _ = try await run.round(0)  // for the caches of the system and of the processor
        var outcome = Outcome(self)
        for number in 1...rounds { outcome.add(try await run.round(number)) }
        try await run.close()
        return outcome
    }
}
