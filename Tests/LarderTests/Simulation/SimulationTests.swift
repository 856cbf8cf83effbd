import Foundation
import LarderTestSupport
import Testing

/// Random stories of one to five processes on one disk in memory, each of which its seed decides; see CONTRIBUTING.
@Suite("Simulated processes", .storm)
struct SimulationTests {
    /// Shorter than in `.ci/simulate`, which plays thousands.
    private static let short = ["--calls", "40"]

    @Test("keep all promises in 300 random stories", arguments: [1...150, 151...300])
    func stories(_ seeds: ClosedRange<Int>) async throws {
        let (status, output) = try await Stories.run(["\(seeds.lowerBound)", "\(seeds.upperBound)"] + Self.short)
        #expect(status == 0, "\(output)")
    }

    @Test("answer nothing that was replaced or removed in 150 stories in which the whole index is lost")
    func lostIndex() async throws {
        let (status, output) = try await Stories.run(["1", "150", "--kind", "indexLost"] + Self.short)
        #expect(status == 0, "\(output)")
    }

    @Test("do the same for the same seed, in another process")
    func sameSeed() async throws {
        let arguments = ["1", "200", "--calls", "12", "--hashes", "--keep-going"]
        async let first = Stories.run(arguments)
        async let second = Stories.run(arguments)
        let (one, other) = (try await first, try await second)
        func hashes(_ output: String) -> [Substring] {
            output.split(separator: "\n").filter { $0.allSatisfy { $0.isNumber || $0 == " " } }
        }
        #expect(hashes(one.output).count == 200)
        #expect(hashes(one.output) == hashes(other.output))
        #expect(Set(hashes(one.output).map { $0.split(separator: " ")[1] }).count > 190, "seeds make a difference")
    }

    @Test("print the same trace for the same seed, and another for another one")
    func trace() async throws {
        func trace(_ seed: Int) async throws -> [Substring] {
            let output = try await Stories.run(["\(seed)", "\(seed)", "--calls", "12", "--trace"]).output
            return output.split(separator: "\n").dropLast()
        }
        let first = try await trace(7)
        let (again, other) = (try await trace(7), try await trace(8))
        #expect(first.count > 100 && first == again && first != other)
    }

    @Test("agree when a change is held in any step beside another")
    func matrix() async throws {
        var generator = RunSeed.generator()
        let part = Int.random(in: 0..<40, using: &generator)
        let (status, output) = try await Stories.run(["--matrix", "13", "\(part)/40"])
        #expect(status == 0, "part \(part): \(output)")
    }
}
