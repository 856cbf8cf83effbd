import Foundation

/// Two charts as one SVG: the cost of a set against the number of entries, and microseconds for each size against the
/// floor.
struct Plot {
    private let outcomes: [Outcome]

    init(_ outcomes: [Outcome]) {
        self.outcomes = outcomes
    }

    /// Nil when there is nothing to draw.
    var svg: String? {
        let charts = [growth, sizes].filter { !$0.series.isEmpty }
        if charts.isEmpty { return nil }
        let width = 40 + 440 * charts.count
        return """
            <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(width) 340" font-family="sans-serif" font-size="12">
            <rect width="\(width)" height="340" fill="white"/>
            \(charts.enumerated().map { $1.svg(left: 70 + 440 * Double($0)) }.joined(separator: "\n"))
            </svg>

            """
    }

    private var growth: Chart {
        let points = outcomes.filter { $0.scenario.floor == Scenario.growthFloor }
        return Chart(
            title: "set of 1 KiB against the number of entries, us", axis: .linear,
            labels: points.compactMap { $0.scenario.entries.map(Figure.short) },
            series: [
                .init("Larder", points.map(\.value)),
                .init("beside 1k entries, in turns", points.map { $0.floor ?? 0 }, isFloor: true),
            ])
    }

    private var sizes: Chart {
        func of(_ name: String) -> [Outcome] { outcomes.filter { $0.scenario.name == name && $0.scenario.size != nil } }
        let (sets, gets) = (of("set"), of("get"))
        let labelled = sets.count >= gets.count ? sets : gets
        return Chart(
            title: "us for each size, and the system calls alone", axis: .logarithmic,
            labels: labelled.compactMap { $0.scenario.size.map(Figure.bytes) },
            series: [
                .init("set", sets.map(\.value)), .init("its system calls", sets.map { $0.floor ?? 0 }, isFloor: true),
                .init("get", gets.map(\.value)), .init("its system calls", gets.map { $0.floor ?? 0 }, isFloor: true),
            ])
    }
}

/// Lines over equal steps.
private struct Chart {
    enum Axis {
        /// From 0 on.
        case linear
        /// Whole decades.
        case logarithmic
    }

    struct Series {
        let name: String
        let values: [Double]
        let isFloor: Bool

        init(_ name: String, _ values: [Double], isFloor: Bool = false) {
            self.name = name
            self.values = values
            self.isFloor = isFloor
        }
    }

    private static let colors = ["#c2410c", "#1d4ed8"]
    private static let (width, height, top) = (340.0, 220.0, 50.0)

    let title: String
    let axis: Axis
    let labels: [String]
    let series: [Series]

    init(title: String, axis: Axis, labels: [String], series: [Series]) {
        self.title = title
        self.axis = axis
        self.labels = labels
        self.series = series.filter { !$0.values.isEmpty && $0.values.count == labels.count }
    }

    /// The values at the grid lines, around all values: powers of ten, or up to six equal steps from 0.
    private var grid: [Double] {
        let all = series.flatMap(\.values).filter { $0 > 0 }
        switch axis {
        case .logarithmic:
            let low = Int(log10(all.min() ?? 1).rounded(.down))
            return (low...max(low + 1, Int(log10(all.max() ?? 10).rounded(.up)))).map { pow(10, Double($0)) }
        case .linear:
            let most = all.max() ?? 1
            let decade = pow(10, log10(most / 5).rounded(.down))
            let step = [1, 2, 5, 10].map { $0 * decade }.first { $0 * 5 >= most } ?? most
            return (0...Int((most / step).rounded(.up))).map { Double($0) * step }
        }
    }

    /// The position of a value between the first grid line and the last, from 0 to 1.
    private func part(_ value: Double, of grid: [Double]) -> Double {
        guard let first = grid.first, let last = grid.last else { return 0 }
        switch axis {
        case .linear: return value / last
        case .logarithmic: return log10(max(value, 1e-9) / first) / log10(last / first)
        }
    }

    func svg(left: Double) -> String {
        let grid = grid
        func x(_ step: Int) -> Double { left + Self.width * (Double(step) + 0.5) / Double(labels.count) }
        func y(_ value: Double) -> Double {
            Self.top + Self.height * (1 - part(value, of: grid))
        }
        var lines = [text(title, left, 24, anchor: "start", more: #" font-size="14""#)]
        for value in grid {
            let height = Self.format(y(value))
            lines.append(
                #"<path d="M\#(left) \#(height)H\#(left + Self.width)" stroke="lightgray"/>"#
                    + text(Figure.short(value), left - 6, y(value) + 4, anchor: "end"))
        }
        for (step, label) in labels.enumerated() {
            lines.append(text(label, x(step), Self.top + Self.height + 18, anchor: "middle"))
        }
        for (number, line) in series.enumerated() {
            let color = Self.colors[number / 2 % Self.colors.count]
            let points = line.values.enumerated().map { "\(Self.format(x($0))),\(Self.format(y($1)))" }
            let dash = line.isFloor ? #" stroke-dasharray="5 4""# : ""
            lines.append(
                #"<polyline points="\#(points.joined(separator: " "))" fill="none" stroke="\#(color)" stroke-width="2"\#(dash)/>"#
            )
            let legend = (x: left + Double(number % 2) * 130, y: Self.top + Self.height + 42 + Double(number / 2) * 18)
            lines.append(
                #"<path d="M\#(legend.x) \#(legend.y - 4)h24" stroke="\#(color)" stroke-width="2"\#(dash)/>"#
                    + text(line.name, legend.x + 30, legend.y, anchor: "start"))
        }
        return lines.joined(separator: "\n")
    }

    private func text(_ text: String, _ x: Double, _ y: Double, anchor: String, more: String = "") -> String {
        #"<text x="\#(Self.format(x))" y="\#(Self.format(y))" text-anchor="\#(anchor)"\#(more)>\#(text)</text>"#
    }

    private static func format(_ value: Double) -> String { String(format: "%.1f", value) }
}
