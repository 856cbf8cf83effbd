import Foundation

/// Measures what a cache costs, beside the bare system calls that it cannot avoid.
@main
struct LarderBench {
    static func main() async {
        do {
            let options = try Options(Array(CommandLine.arguments.dropFirst()))
            if options.isHelp { return print(Options.help) }
            if let (operation, times) = options.counted {
                let folder = try Folder(in: options.places[0])
                defer { folder.remove() }
                return try operation.run(times, in: folder)
            }
            var report = Report(isJSON: options.isJSON)
            for place in options.places {
                report.begin(place)
                for scenario in Scenario.all where options.wants(scenario) {
                    let folder = try Folder(in: place)
                    defer { folder.remove() }
                    report.add(try await scenario.measure(in: folder, rounds: options.rounds))
                }
            }
            report.end()
        } catch {
            FileHandle.standardError.write(Data("larder-bench: \(error)\n".utf8))
            exit(1)
        }
    }
}
