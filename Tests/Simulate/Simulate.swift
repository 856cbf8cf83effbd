import Foundation
import LarderFiles
import LarderSimulation

/// Plays random stories:
///
///     Simulate FIRST LAST [--kind KIND] [--calls N] [--keep-going] [--hashes] [--trace] [--no-shrinking]
///
/// or the stories that come as a JSON array from the standard input, with `--stories`.
@main
struct Simulate {
    static func main() throws {
        var arguments = Array(CommandLine.arguments.dropFirst())
        func has(_ name: String) -> Bool {
            guard let index = arguments.firstIndex(of: name) else { return false }
            arguments.remove(at: index)
            return true
        }
        func value(_ name: String) -> String? {
            guard let index = arguments.firstIndex(of: name), index + 1 < arguments.count else { return nil }
            defer { arguments.removeSubrange(index...index + 1) }
            return arguments[index + 1]
        }
        let kind = value("--kind").flatMap(Story.Kind.init) ?? .sound
        let calls = value("--calls").flatMap(Int.init) ?? 200
        let (keepsGoing, printsHashes, prints, shrinks) = (
            has("--keep-going"), has("--hashes"), has("--trace"), !has("--no-shrinking")
        )
        let json = value("--json")
        if has("--stories") { try playStories(prints: prints) }
        if let stride = value("--matrix").flatMap(Int.init) {
            try playMatrix(stride, keepsGoing: keepsGoing, arguments)
        }
        guard arguments.count == 2, let first = UInt64(arguments[0]), let last = UInt64(arguments[1]), first <= last
        else {
            say("usage: Simulate FIRST LAST")
            exit(64)
        }
        var failed = 0
        var (steps, made) = (UInt64(0), 0)
        let start = Date()
        for seed in first...last {
            let story = Story.random(seed, kind, calls: calls)
            let stage = Stage(story, keepsTrace: prints)
            let findings = stage.play()
            steps += stage.steps
            made += stage.calls
            if prints { say(stage.trace.joined(separator: "\n")) }
            if printsHashes { say("\(seed) \(stage.traceHash) \(stage.steps)") }
            guard let finding = findings.first else { continue }
            failed += 1
            say("seed \(seed): \(finding)")
            if !shrinks, !keepsGoing { sayHistory(finding, of: stage) }
            if shrinks {
                let (short, found) = Shrinker.shrink(story, finding)
                say(short.test(found))
                if let json { try JSONEncoder().encode([short]).write(to: URL(fileURLWithPath: json)) }
            }
            if !keepsGoing { break }
        }
        let seconds = Date().timeIntervalSince(start)
        let count = Double(last - first + 1)
        say(
            "\(failed) of \(last - first + 1) stories failed; \(made) calls, \(steps) steps, "
                + "\((count / seconds * 10).rounded() / 10) stories a second")
        exit(failed == 0 ? 0 : 1)
    }

    private static func sayHistory(_ finding: String, of stage: Stage) {
        guard let key = finding.split(separator: " ").dropFirst().first.flatMap({ Int($0.dropLast()) }) else { return }
        for line in stage.history(of: key) { say(line) }
    }

    /// Plays the stories of the standard input, until one fails: then it prints what is wrong.
    private static func playStories(prints: Bool) throws {
        let data = FileHandle.standardInput.readDataToEndOfFile()
        for (number, story) in try JSONDecoder().decode([Story].self, from: data).enumerated() {
            let stage = Stage(story, keepsTrace: prints)
            let findings = stage.play()
            if prints { say(stage.trace.joined(separator: "\n")) }
            guard let finding = findings.first else { continue }
            say("story \(number): \(findings.joined(separator: "\n"))\n\(story.test(finding))")
            sayHistory(finding, of: stage)
            exit(1)
        }
        exit(0)
    }

    /// Plays the pairs of a part, as `2/3`, or all.
    private static func playMatrix(_ stride: Int, keepsGoing: Bool, _ arguments: [String]) throws {
        let part = arguments.first?.split(separator: "/").compactMap { Int($0) } ?? []
        let (own, parts) = part.count == 2 ? (part[0], part[1]) : (0, 1)
        let matrix = Matrix(stride: stride) { number in 1 + number * 7 % stride }
        var (stories, failed) = (0, 0)
        let start = Date()
        for number in 0..<Matrix.count where number % parts == own % parts {
            let (played, failure) = matrix.play(number)
            stories += played
            guard let failure else { continue }
            failed += 1
            say("\(failure.name): \(failure.finding)\n\(failure.story.test(failure.finding))")
            if !keepsGoing { break }
        }
        let seconds = Date().timeIntervalSince(start)
        say("\(failed) of \(Matrix.count / parts) pairs failed; \(stories) stories in \(Int(seconds)) s")
        exit(failed == 0 ? 0 : 1)
    }

    /// Prints at once.
    private static func say(_ text: String) {
        FileHandle.standardOutput.write(Data("\(text)\n".utf8))
    }
}
