import Foundation
import LarderSimulation
import LarderTestSupport
import Testing

/// Plays stories in processes of their own: there keys have the same hashes in every run.
enum Stories {
    /// Expects that nothing is wrong in a story that a failed campaign has printed.
    static func expectClean(
        acts: [Story.Act], sourceLocation: SourceLocation = #_sourceLocation,
        _ configure: (inout Story.Setting) -> Void
    ) async throws {
        var setting = Story.Setting()
        configure(&setting)
        try await expectClean([Story(setting, acts)], sourceLocation: sourceLocation)
    }

    /// The same for several stories, of which a run tries a few.
    static func expectClean(_ stories: [Story], sourceLocation: SourceLocation = #_sourceLocation) async throws {
        let stories = Sample.few(16, of: stories, for: "\(sourceLocation.line)")
        let (status, output) = try await run(["--stories"], input: try JSONEncoder().encode(stories))
        #expect(status == 0, "\(output)", sourceLocation: sourceLocation)
    }

    /// Runs `Simulate`, and returns what it has printed.
    static func run(_ arguments: [String], input: Data = Data()) async throws -> (status: Int32, output: String) {
        let process = Process()
        process.executableURL = try Executables.url(of: "Simulate")
        process.arguments = arguments
        let (stdin, stdout) = (Pipe(), Pipe())
        (process.standardInput, process.standardOutput) = (stdin, stdout)
        try process.start()
        try stdin.fileHandleForWriting.write(contentsOf: input)
        try stdin.fileHandleForWriting.close()
        return await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                let output = String(decoding: stdout.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
                process.waitUntilExit()
                continuation.resume(returning: (process.terminationStatus, output))
            }
        }
    }
}
