import Foundation

/// Charts as SVG: in one file the cost of a set against the number of entries, and microseconds for each size against
/// the floor; in another the cost of an opening against the number of entries; in a third the cost of an operation
/// against the number of processes; in a fourth files and segments beside the peers.
struct Plot {
    private let outcomes: [Outcome]

    init(_ outcomes: [Outcome]) {
        self.outcomes = outcomes
    }

    /// The files for which there is something to draw.
    var files: [(name: String, svg: String)] {
        let all = [
            ("performance.svg", [growth, sizes]), ("opening.svg", [opening]), ("processes.svg", [processes]),
            ("segments.svg", [peers("set"), peers("get")]),
        ]
        return all.compactMap { name, charts in
            Self.svg(charts.filter { !$0.series.isEmpty }).map { (name, $0) }
        }
    }

    private static func svg(_ charts: [Chart]) -> String? {
        guard let height = charts.map(\.wholeHeight).max() else { return nil }
        let width = 40 + 440 * charts.count
        let groups = charts.enumerated().map { number, chart in
            "<g transform=\"translate(\(70 + 440 * number) 0)\">\n\(chart.svg)\n</g>"
        }
        return """
            <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(width) \(height)" font-family="sans-serif" font-size="12">
            <rect width="\(width)" height="\(height)" fill="white"/>
            \(groups.joined(separator: "\n"))
            </svg>

            """
    }

    /// The hit ratios of policies over the size of the cache.
    static func svg(of outcomes: [PolicyReplay.Outcome]) -> String? {
        svg(
            outcomes.map { outcome in
                Chart(
                    title: "\(outcome.trace): hits in % by entries", axis: .linear,
                    labels: outcome.sizes.map(Figure.short),
                    series: [
                        .init("adaptive", outcome.ratios[.adaptive] ?? []),
                        .init("least recently used", outcome.ratios[.leastRecentlyUsed] ?? [], color: 1),
                    ] + (outcome.ratios[.s3FIFO].map { [.init("S3-FIFO", $0, color: 3)] } ?? [])
                        + (outcome.ratios[.optimal].map { [.init("the best possible", $0, .dashed, color: 2)] } ?? []))
            })
    }

    private var growth: Chart {
        let points = outcomes.filter {
            $0.scenario.floor == Scenario.growthFloor && $0.scenario.name.hasPrefix("set")
        }
        return Chart(
            title: "set of 1 KiB against the number of entries, us", axis: .linear,
            labels: points.compactMap { $0.scenario.entries.map(Figure.short) },
            series: [
                .init("Larder", points.map(\.value)),
                .init("beside 1k entries, in turns", points.map(\.floor), .dashed),
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
                .init("set", sets.map(\.value)), .init("its system calls", sets.map(\.floor), .dashed),
                .init("get", gets.map(\.value), color: 1),
                .init("its system calls", gets.map(\.floor), .dashed, color: 1),
            ])
    }

    /// Larder in segments and in files beside its peers, for each size.
    private func peers(_ operation: String) -> Chart {
        func values(_ name: String) -> [Double?] {
            Scenario.sizes.map { size in
                outcomes.first { $0.scenario.name == name && $0.scenario.size == size }?.value
            }
        }
        return Chart(
            title: "us for each \(operation)", axis: .logarithmic, labels: Scenario.sizes.map(Figure.bytes),
            series: [
                .init("in segments", values("segment \(operation)")),
                .init("in files", values(operation), .dashed),
                .init("SQLite", values("SQLite \(operation)"), color: 2),
                .init("LMDB", values("LMDB \(operation)"), color: 3),
            ])
    }

    private var opening: Chart {
        func value(_ name: String) -> Double? { outcomes.first { $0.scenario.name == name }?.value }
        func larder(_ journal: OpenedJournal) -> [Double?] {
            Scenario.counts.map { value(Scenario.openingName($0, journal, after: .closed)) }
        }
        return Chart(
            title: "open and first get against the number of entries, ms", axis: .logarithmic,
            labels: Scenario.counts.map(Figure.short),
            series: [
                .init("Larder", larder(.empty)),
                .init("format 1, read whole", Scenario.counts.map { value(Scenario.wholeName($0)) }, color: 1),
                .init("with 1k in the journal", larder(.some), .dashed),
                .init("SQLite", Scenario.counts.map { value(Scenario.openSQLiteName($0)) }, color: 2),
                .init("with a full journal", larder(.longest), .dotted),
                .init("LMDB", Scenario.counts.map { value(Scenario.openLMDBName($0)) }, color: 3),
            ])
    }

    private var processes: Chart {
        func values(_ kind: Scenario.Mixed) -> [Double?] {
            Scenario.processCounts.map { count in
                outcomes.first { $0.scenario.name == Scenario.mixedName(kind, count) }?.value
            }
        }
        return Chart(
            title: "us per set or get of 1 KiB, all processes together", axis: .linear,
            labels: Scenario.processCounts.map { $0 == 1 ? "1 process" : "\($0)" },
            series: [
                .init("Larder", values(.larder)), .init("SQLite", values(.sqlite), color: 2),
                .init("diskcache", values(.diskcache), color: 1),
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
        enum Line: String {
            case solid = ""
            case dashed = #" stroke-dasharray="5 4""#
            case dotted = #" stroke-dasharray="1 3""#
        }

        let name: String
        /// One for each label; nil where nothing was measured.
        let values: [Double?]
        let line: Line
        let color: String

        init(_ name: String, _ values: [Double?], _ line: Line = .solid, color: Int = 0) {
            self.name = name
            self.values = values
            self.line = line
            self.color = Self.colors[color]
        }

        private static let colors = ["#c2410c", "#1d4ed8", "#15803d", "#6b21a8"]
    }

    private static let (width, height, top) = (340.0, 220.0, 50.0)
    /// The part above the first row of the legend, and each row.
    private static let (legendTop, legendRow) = (312, 18)

    /// With the legend.
    var wholeHeight: Int { Self.legendTop - 8 + Self.legendRow * max(2, (series.count + 1) / 2) }

    let title: String
    let axis: Axis
    let labels: [String]
    let series: [Series]

    init(title: String, axis: Axis, labels: [String], series: [Series]) {
        self.title = title
        self.axis = axis
        self.labels = labels
        self.series = series.filter { $0.values.contains { $0 != nil } && $0.values.count == labels.count }
    }

    /// The values at the grid lines, around all values: powers of ten, or up to six equal steps from 0.
    private var grid: [Double] {
        let all = series.flatMap { $0.values.compactMap(\.self) }.filter { $0 > 0 }
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

    /// The axes begin at x = 0.
    var svg: String {
        let grid = grid
        func x(_ step: Int) -> Double { Self.width * (Double(step) + 0.5) / Double(labels.count) }
        func y(_ value: Double) -> Double {
            Self.top + Self.height * (1 - part(value, of: grid))
        }
        var lines = [text(title, 0, 24, anchor: "start", more: #" font-size="14""#)]
        for value in grid {
            lines.append(
                #"<path d="M0 \#(Self.format(y(value)))H\#(Self.width)" stroke="lightgray"/>"#
                    + text(Figure.short(value), -6, y(value) + 4, anchor: "end"))
        }
        for (step, label) in labels.enumerated() {
            lines.append(text(label, x(step), Self.top + Self.height + 18, anchor: "middle"))
        }
        for (number, line) in series.enumerated() {
            let points = line.values.enumerated().compactMap { step, value in
                value.map { "\(Self.format(x(step))),\(Self.format(y($0)))" }
            }
            let stroke = #"stroke="\#(line.color)" stroke-width="2"\#(line.line.rawValue)"#
            lines.append(#"<polyline points="\#(points.joined(separator: " "))" fill="none" \#(stroke)/>"#)
            let legend = (x: Double(number % 2) * 170, y: Double(Self.legendTop + number / 2 * Self.legendRow))
            lines.append(
                #"<path d="M\#(legend.x) \#(legend.y - 4)h24" \#(stroke)/>"#
                    + text(line.name, legend.x + 30, legend.y, anchor: "start"))
        }
        return lines.joined(separator: "\n")
    }

    private func text(_ text: String, _ x: Double, _ y: Double, anchor: String, more: String = "") -> String {
        #"<text x="\#(Self.format(x))" y="\#(Self.format(y))" text-anchor="\#(anchor)"\#(more)>\#(text)</text>"#
    }

    private static func format(_ value: Double) -> String { String(format: "%.1f", value) }
}
