import Foundation

/// Measures the cost of a cache against the bare system calls that it cannot avoid.
@main
struct LarderBench {
    static func main() async {
        do {
            let options = try Options(Array(CommandLine.arguments.dropFirst()))
            if options.isHelp { return print(Options.help) }
            let place = try options.places()[0]
            if let worker = options.worker {
                if worker == .redis { return try await RedisWorker.run(in: place.url) }
                return try worker.run(in: place.url)
            }
            if let traces = options.traces { return try replay(traces, options) }
            Folder.cleanUpWhenInterrupted()
            if let resident = options.resident { return try resident.print(place.url) }
            if let (operation, times) = options.counted {
                let folder = try Folder(in: place.url)
                defer { folder.remove() }
                return try operation.run(times, in: folder, isShared: options.isShared)
            }
            if let operations = options.soak {
                for workload in Soak.Workload.allCases {
                    let folder = try Folder(in: place.url)
                    defer { folder.remove() }
                    try Soak.run(workload, operations, in: folder)
                }
                let folder = try Folder(in: place.url)
                defer { folder.remove() }
                return try Soak.rebuild(max(operations / 5, 1), in: folder)
            }
            try await measure(options)
        } catch let error as CocoaError {
            Folder.abandon(error.localizedDescription)
        } catch {
            Folder.abandon("\(error)")
        }
    }

    private static func replay(_ traces: [URL], _ options: Options) throws {
        let outcomes = try PolicyReplay(
            traces: traces.isEmpty ? RequestTrace.patterns() : try traces.map(RequestTrace.init(contentsOf:)),
            isOnDisk: options.isOnDisk, sessions: options.sessions
        ).run()
        guard let plot = options.plot else { return }
        let svg = Plot.svg(of: outcomes.filter { $0.sizes.count > 1 })
        guard let svg else { throw BenchFailure("nothing to draw: patterns have one size each") }
        try Data(svg.utf8).write(to: plot.appendingPathComponent(options.isOnDisk ? "policy-disk.svg" : "policy.svg"))
    }

    private static func measure(_ options: Options) async throws {
        let (scenarios, places) = (try options.scenarios(), try options.places())
        var report = Report(isJSON: options.isJSON)
        let measured = places.map { place in scenarios.filter { place.isInMemory || !$0.isOnlyInMemory } }
        var progress = Progress(total: measured.reduce(0) { $0 + $1.count })
        for (number, place) in places.enumerated() {
            report.begin(place.url)
            var outcomes: [Outcome] = []
            var folders: [Folder] = []
            defer { for folder in folders { folder.remove() } }
            for scenario in measured[number] {
                let folder = try Folder(in: place.url)
                folders.append(folder)
                let outcome = try await scenario.measure(in: folder, of: place, rounds: options.rounds) { round in
                    progress.show(scenario.title, round: round)
                }
                progress.step()
                report.add(outcome)
                outcomes.append(outcome)
                if place.isInMemory { folder.remove() }
            }
            if number == 0, let plot = options.plot { try draw(outcomes, plot) }
        }
        report.end()
        if options.isGuard, !report.farOff.isEmpty {
            throw BenchFailure("more than twice above the target: \(report.farOff.joined(separator: "; "))")
        }
    }

    private static func draw(_ outcomes: [Outcome], _ folder: URL) throws {
        let files = Plot(outcomes).files
        if files.isEmpty {
            throw BenchFailure(
                "nothing to draw: a plot needs sets or gets of several sizes, sets beside entries, openings, processes")
        }
        for (name, svg) in files { try Data(svg.utf8).write(to: folder.appendingPathComponent(name)) }
    }
}
