import Foundation
import LarderTestSupport
import Testing

@Suite("Several copies of a program")
struct CopiesTests {
    @Test("eight copies of QuickStart at once give eight right answers, and leave a whole cache behind")
    func quickStart() throws {
        let home = try TemporaryDirectory()
        let texts = home.appending("texts")
        try FileManager.default.createDirectory(at: texts, withIntermediateDirectories: true)
        let files = 0..<30
        for number in files {
            let text = String(repeating: "two words\n", count: number + 1)
            try Data(text.utf8).write(to: texts.appendingPathComponent("\(number).txt"))
        }
        let copies = try (0..<8).map { _ in try started(home, texts) }
        for copy in copies { check(try output(of: copy), files) }
        let last = try output(of: started(home, texts))
        #expect(last.contains("computed 0, from cache \(files.count), "), "\(last)")
    }

    private func started(_ home: TemporaryDirectory, _ texts: URL) throws -> (process: Process, pipe: Pipe) {
        let (process, pipe) = (Process(), Pipe())
        process.executableURL = try Executables.url(of: "QuickStart")
        process.arguments = [texts.path]
        process.environment = ["XDG_CACHE_HOME": home.appending("caches").path, "HOME": home.appending("home").path]
        process.standardOutput = pipe
        process.standardError = pipe
        try process.start()
        return (process, pipe)
    }

    private func output(of copy: (process: Process, pipe: Pipe)) throws -> String {
        let output = copy.pipe.fileHandleForReading.readDataToEndOfFile()
        copy.process.waitUntilExit()
        #expect(copy.process.terminationStatus == 0)
        return String(decoding: output, as: UTF8.self)
    }

    private func check(_ output: String, _ files: Range<Int>) {
        let rows = output.split(separator: "\n").map { $0.split(separator: " ") }
        for number in files {
            let counts: [Substring] = ["\(number).txt", "\(number + 1)", "\(2 * (number + 1))"]
            #expect(rows.contains { $0.prefix(3) == counts[...] }, "\(number).txt in \(output)")
        }
        let summary = output.wholeMatch(of: /(?s).*computed (\d+), from cache (\d+), in .*/)
        let (computed, cached) = (summary.flatMap { Int($0.1) } ?? -1, summary.flatMap { Int($0.2) } ?? -1)
        #expect(computed >= 0 && computed + cached == files.count, "\(output)")
    }
}
