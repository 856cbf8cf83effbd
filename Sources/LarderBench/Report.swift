import Foundation

/// Prints a table, or an object on a line for each scenario.
struct Report {
    private let isJSON: Bool
    private var missed = 0
    private var place = ""

    init(isJSON: Bool) {
        self.isJSON = isJSON
    }

    mutating func begin(_ place: URL) {
        self.place = place.path
        if isJSON { return }
        write("\n\(place.path)")
        write(row("scenario", "size", "median", "of rounds", "p99", "max", "floor", "ratio", "target"))
    }

    mutating func add(_ outcome: Outcome) {
        if outcome.holds == false { missed += 1 }
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
        let target =
            switch scenario.target {
            case .ratio(let most): "<= \(most)x"
            case .above(let most): "<= +\(Self.number(most)) ns"
            case .time(let most): "<= \(Self.number(most)) ns"
            case .none: ""
            }
        let mark = outcome.holds.map { $0 ? " holds" : " MISSED" } ?? ""
        return row(
            scenario.name, scenario.size.map(Self.bytes) ?? "",
            "\(Self.number(outcome.value)) \(scenario.unit)",
            "\(Self.number(outcome.spread.0)) - \(Self.number(outcome.spread.1))",
            Self.number(outcome.p99), Self.number(outcome.longest), Self.number(outcome.floor),
            outcome.ratio.map { String(format: "%.2f", $0) } ?? "", target + mark)
    }

    private func row(_ cells: String...) -> String {
        let widths = [22, 8, 12, 16, 9, 9, 9, 7]
        let padded = zip(cells, widths).map { $0.padding(toLength: max($1, $0.count + 1), withPad: " ", startingAt: 0) }
        return padded.joined() + cells[widths.count...].joined()
    }

    private func json(_ outcome: Outcome) -> String {
        let scenario = outcome.scenario
        var object: [String: Any] = [
            "scenario": scenario.name, "unit": scenario.unit.rawValue, "value": outcome.value,
            "floor": outcome.floor, "against": scenario.floor, "p99": outcome.p99,
            "max": outcome.longest, "directory": place,
        ]
        object["size"] = scenario.size
        object["ratio"] = outcome.ratio
        object["holds"] = outcome.holds
        switch scenario.target {
        case .ratio(let most): object["target"] = "ratio \(most)"
        case .above(let most): object["target"] = "above \(most) ns"
        case .time(let most): object["target"] = "time \(most) ns"
        case .none: break
        }
        let options: JSONSerialization.WritingOptions = [.sortedKeys, .withoutEscapingSlashes]
        let data = try? JSONSerialization.data(withJSONObject: object, options: options)
        return data.map { String(decoding: $0, as: UTF8.self) } ?? "{}"
    }

    private static func number(_ value: Double) -> String {
        String(format: value < 10 ? "%.2f" : value < 100 ? "%.1f" : "%.0f", value)
    }

    private static func bytes(_ size: Int) -> String {
        size >= 1 << 20 ? "\(size >> 20) MiB" : size >= 1 << 10 ? "\(size >> 10) KiB" : "\(size) B"
    }
}
