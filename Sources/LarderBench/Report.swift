import Foundation

/// Prints a table, or an object on a line for each scenario.
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
        write("\n\(place.path)")
        write(row("scenario", "median", "of rounds", "p50", "p99", "max", "floor", "ratio", "target"))
    }

    mutating func add(_ outcome: Outcome) {
        if outcome.holds == false { missed += 1 }
        if outcome.isFarOff { farOff.append(outcome.scenario.title) }
        write(isJSON ? json(outcome) : line(outcome))
    }

    func end() {
        if !isJSON { write(missed == 0 ? "\nall targets hold" : "\n\(missed) targets missed") }
    }

    /// At once, into a pipe too.
    private func write(_ line: String) {
        FileHandle.standardOutput.write(Data((line + "\n").utf8))
    }

    private func line(_ outcome: Outcome) -> String {
        let scenario = outcome.scenario
        let mark = outcome.holds.map { $0 ? " holds" : " MISSED" } ?? ""
        return row(
            scenario.title, "\(Figure.number(outcome.value)) \(scenario.unit)",
            "\(Figure.number(outcome.spread.0)) - \(Figure.number(outcome.spread.1))", Figure.number(outcome.p50),
            Figure.number(outcome.p99), Figure.number(outcome.longest), outcome.floor.map(Figure.number) ?? "",
            outcome.ratio.map { String(format: "%.2f", $0) } ?? "", target(of: scenario) + mark)
    }

    private func target(of scenario: Scenario) -> String {
        func inUnit(_ value: Double) -> String { "\(Figure.number(value / scenario.unit.scale)) \(scenario.unit)" }
        return switch scenario.target {
        case .ratio(let most): String(format: "<= %.2fx", most)
        case .above(let most): "<= floor + \(inUnit(most))"
        case .most(let most): "<= \(inUnit(most))"
        case .longest(let most): "max <= \(inUnit(most))"
        case .none: ""
        }
    }

    private func row(_ cells: String...) -> String {
        let widths = [35, 12, 16, 9, 9, 9, 9, 7]
        let padded = zip(cells, widths).map { $0.padding(toLength: max($1, $0.count + 1), withPad: " ", startingAt: 0) }
        return padded.joined() + cells[widths.count...].joined()
    }

    private func json(_ outcome: Outcome) -> String {
        let scenario = outcome.scenario
        var object: [String: Any] = [
            "scenario": scenario.name, "unit": scenario.unit.rawValue, "value": outcome.value,
            "p50": outcome.p50, "p99": outcome.p99, "max": outcome.longest, "directory": place,
        ]
        object["size"] = scenario.size
        object["entries"] = scenario.entries
        object["floor"] = outcome.floor
        object["against"] = scenario.floor.isEmpty ? nil : scenario.floor
        object["ratio"] = outcome.ratio
        object["holds"] = outcome.holds
        if case .none = scenario.target {} else { object["target"] = target(of: scenario) }
        let options: JSONSerialization.WritingOptions = [.sortedKeys, .withoutEscapingSlashes]
        let data = try? JSONSerialization.data(withJSONObject: object, options: options)
        return data.map { String(decoding: $0, as: UTF8.self) } ?? "{}"
    }
}
