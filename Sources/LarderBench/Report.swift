import Foundation

/// Prints a table, or one JSON object per line for each scenario.
struct Report {
    private let isJSON: Bool
    private var missed = 0
    private var place = ""
    private(set) var farOff: [String] = []

    init(isJSON: Bool) {
        self.isJSON = isJSON
    }

    mutating func begin(_ place: URL) {
        self.place = place.path
        if isJSON { return }
        if _isDebugAssertConfiguration() { write("A DEBUG BUILD: the figures mean nothing. Use -c release.") }
        write("\n\(place.path)")
        write(row("scenario", "median", "of rounds", "p50", "p99", "max", "floor", "ratio", "target"))
    }

    mutating func add(_ outcome: Outcome) {
        if outcome.holds == false { missed += 1 }
        if outcome.isFarOff { farOff.append(outcome.scenario.title) }
        write(isJSON ? json(outcome) : line(outcome))
    }

    func end() {
        if isJSON { return }
        write(missed == 0 ? "\nno target missed" : "\n\(missed) \(missed == 1 ? "target" : "targets") missed")
    }

    /// Unbuffered, even into a pipe.
    private func write(_ line: String) {
        guard (try? FileHandle.standardOutput.write(contentsOf: Data((line + "\n").utf8))) != nil else {
            Folder.abandon("the reader has closed the output")
        }
    }

    private func line(_ outcome: Outcome) -> String {
        let scenario = outcome.scenario
        let mark = outcome.holds.map { $0 ? " holds" : " MISSED" } ?? ""
        return row(
            scenario.title, "\(Figure.number(outcome.value)) \(scenario.unit)",
            "\(Figure.number(outcome.spread.0)) - \(Figure.number(outcome.spread.1))", Figure.number(outcome.p50),
            Figure.number(outcome.p99), Figure.number(outcome.longest), outcome.floor.map(Figure.number) ?? "",
            outcome.ratio.map { String(format: "%.2f", $0) } ?? "", target(of: scenario).text + mark)
    }

    /// The target: its number (in the scenario's unit, unless it is a ratio), its kind, and both as text.
    private func target(of scenario: Scenario) -> (number: Double?, kind: String?, text: String) {
        let scale = scenario.unit.scale
        func text(_ value: Double) -> String { "\(Figure.number(value / scale)) \(scenario.unit)" }
        return switch scenario.target {
        case .ratio(let most): (most, "ratio", String(format: "<= %.2fx", most))
        case .above(let most): (most / scale, "above the floor", "<= floor + \(text(most))")
        case .most(let most): (most / scale, "value", "<= \(text(most))")
        case .longest(let most): (most / scale, "max", "max <= \(text(most))")
        case .none: (nil, nil, "")
        }
    }

    private func row(_ cells: String...) -> String {
        let widths = [37, 12, 16, 9, 9, 9, 9, 7]
        let padded = zip(cells, widths).map { $0.padding(toLength: max($1, $0.count + 1), withPad: " ", startingAt: 0) }
        return padded.joined() + cells[widths.count...].joined()
    }

    private func json(_ outcome: Outcome) -> String {
        let scenario = outcome.scenario
        let target = target(of: scenario)
        let object: [String: Any?] = [
            "scenario": scenario.name, "size": scenario.size, "entries": scenario.entries,
            "value": outcome.value, "unit": scenario.unit.rawValue, "p50": outcome.p50, "p99": outcome.p99,
            "max": outcome.longest, "floor": outcome.floor, "against": scenario.floor.isEmpty ? nil : scenario.floor,
            "ratio": outcome.ratio, "target": target.number, "targetKind": target.kind, "holds": outcome.holds,
            "directory": place,
        ]
        let options: JSONSerialization.WritingOptions = [.sortedKeys, .withoutEscapingSlashes]
        let data = try? JSONSerialization.data(withJSONObject: object.mapValues { $0 ?? NSNull() }, options: options)
        return data.map { String(decoding: $0, as: UTF8.self) } ?? "{}"
    }
}
