import Foundation

/// Measures what a cache costs, beside the bare system calls that it cannot avoid.
@main
struct LarderBench {
    static func main() async {
        do {
            let options = try Options(Array(CommandLine.arguments.dropFirst()))
            if options.isHelp { return print(Options.help) }
            if let resident = options.resident { return try resident.print(options.places[0]) }
            if let (operation, times) = options.counted {
                let folder = try Folder(in: options.places[0])
                defer { folder.remove() }
                return try operation.run(times, in: folder)
            }
            try await measure(options)
        } catch {
            FileHandle.standardError.write(Data("larder-bench: \(error)\n".utf8))
            exit(1)
        }
    }

    private static func measure(_ options: Options) async throws {
        let scenarios = options.scenarios
        var report = Report(isJSON: options.isJSON)
        var progress = Progress(total: options.places.count * scenarios.count)
        for place in options.places {
            report.begin(place)
            var outcomes: [Outcome] = []
            var folders: [Folder] = []
            defer { for folder in folders { folder.remove() } }
            for scenario in scenarios {
                let folder = try Folder(in: place)
                folders.append(folder)
                let outcome = try await scenario.measure(in: folder, rounds: options.rounds) { round in
                    progress.show(scenario.title, round: round)
                }
                progress.step()
                report.add(outcome)
                outcomes.append(outcome)
                if folder.isInMemory || scenario.isRemovedAtOnce { folder.remove() }
            }
            if let plot = options.plot, place == options.places[0] {
                try Data(Plot(outcomes).svg.utf8).write(to: plot)
            }
        }
        report.end()
        if options.isGuard, !report.farOff.isEmpty {
            throw BenchFailure("more than twice above the target: \(report.farOff.joined(separator: "; "))")
        }
    }
}
