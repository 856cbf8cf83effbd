import Foundation
import LarderTestSupport
import LarderTesting
import Testing

/// Real processes on one directory, SIGKILL and SIGSTOP.
@Suite("Processes on one directory")
struct SharingStormTests {
    private static let environment = ProcessInfo.processInfo.environment
    /// The number of kills from the environment, for a longer run.
    static let kills = environment["LARDER_KILLS"].flatMap(Int.init)
    /// A long run has several directories, so that its logs fit in memory.
    private static let killsPerDirectory = 250

    @Test("killed and stopped processes leave one history", arguments: Sample.few(1, of: [false, true]))
    func shared(hasSegments: Bool) async throws {
        try await Self.run(SharingStorm(hasSegments: hasSegments), kills: Self.kills ?? 8)
    }

    @Test("calls that find the disk full have changed nothing", arguments: Sample.few(1, of: [false, true]))
    func fullDisk(hasSegments: Bool) async throws {
        try await Self.run(SharingStorm(hasSegments: hasSegments, mishap: .fullDisk), kills: Self.kills ?? 4)
    }

    @Test(
        "nobody notices that the directory has another name for a moment",
        arguments: Sample.few(1, of: [false, true]))
    func renames(hasSegments: Bool) async throws {
        try await Self.run(SharingStorm(hasSegments: hasSegments, mishap: .renames), kills: Self.kills ?? 4)
    }

    @Test("processes whose directory was deleted meet in the new one", arguments: Sample.few(1, of: [false, true]))
    func deletions(hasSegments: Bool) async throws {
        try await Self.run(SharingStorm(hasSegments: hasSegments, mishap: .deletions), kills: Self.kills ?? 4)
    }

    /// The index is lost after all have been killed, one of them while it was stopped.
    @Test(
        "what was replaced or removed stays away when the index is lost",
        arguments: [["manifest"], ["journal"], ["shared"], ["manifest", "journal", "shared"]], [false, true])
    func lostIndex(names: [String], hasSegments: Bool) async throws {
        for number in 0..<(Self.kills ?? 4) / 4 {
            for processes in [2, 5] {
                var storm = SharingStorm(processes: processes, keys: 16, hasSegments: hasSegments)
                storm.loss = (calls: 600, names: names)
                storm.seed = RunSeed.seed("\(names) \(hasSegments) \(number) \(processes)")
                let report = try await Self.report(of: storm)
                print("sharing storm: \(report)")
                #expect(report.isClean && report.calls > 300, "\(report)")
                if !report.isClean { return }
            }
        }
    }

    @Test("a process killed again and again leaves one history", arguments: Sample.few(1, of: [false, true]))
    func alone(hasSegments: Bool) async throws {
        let storm = SharingStorm(processes: 1, stopPercent: 0, hasSegments: hasSegments)
        try await Self.run(storm, kills: Self.kills ?? 6)
    }

    @Test("a forked child cannot use the cache of its parent, which goes on", arguments: [true, false])
    func forked(isShared: Bool) async throws {
        let home = try TemporaryDirectory()
        let probe = try SharingProcess(
            1, directory: home.appending("cache"), logs: home.url, seed: 1, keys: 1,
            mode: isShared ? ["fork", "shared"] : ["fork"])
        let status = await withCheckedContinuation { continuation in
            Thread.detachNewThread { continuation.resume(returning: probe.awaitEnd()) }
        }
        #expect(status == 0)
    }

    /// Runs a storm with this number of kills, and expects one history.
    static func run(_ storm: SharingStorm, kills: Int) async throws {
        let directories = (kills + killsPerDirectory - 1) / killsPerDirectory
        for number in 0..<directories {
            var storm = storm
            storm.kills = kills * (number + 1) / directories - kills * number / directories
            storm.seed = RunSeed.seed("\(storm) \(number)")
            let report = try await report(of: storm)
            print("sharing storm: \(report)")
            #expect(report.isClean && report.kills >= storm.kills, "\(report)")
            if !report.isClean { return }
            // The storm has waited for all this.
            #expect(report.calls >= storm.kills && report.unfinished > 0, "\(report)")
            if storm.mishap == .fullDisk {
                #expect(report.refused > 0, "\(report)")
            } else if storm.mishap != nil {
                #expect(report.mishaps > 0, "\(report)")
            }
            if storm.stopPercent > 0 { #expect(!report.longestBesideStopped.isEmpty, "\(report)") }
        }
    }

    /// Runs a storm on a thread of its own, as it blocks and other tests need the threads of Swift.
    static func report(of storm: SharingStorm) async throws -> SharingReport {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread { continuation.resume(with: Result { try storm.run() }) }
        }
    }
}

@Suite("The storm of processes")
struct StormTests {
    @Test("accepts processes that replace files under a lock")
    func register() async throws {
        try await SharingStormTests.run(
            SharingStorm(register: "register"), kills: SharingStormTests.kills ?? 6)
    }

    /// In one storm the processes may hardly run side by side, and then their faults have no effect. So there are as
    /// many storms as it takes.
    @Test(
        "finds stale reads, lost updates and late removals", .timeLimit(.minutes(10)),
        arguments: ["stale", "unlocked", "late"])
    func faulty(fault: String) async throws {
        for number in 1... {
            try Task.checkCancellation()
            let storm = SharingStorm(
                kills: 5, register: "register-\(fault)", seed: RunSeed.seed("\(fault) \(number)"))
            let report = try await SharingStormTests.report(of: storm)
            #expect(report.errors.isEmpty, "\(report)")
            if !report.violations.isEmpty { return print("storm \(number) has found \(fault): \(report)") }
        }
    }

    @Test("reads what its children log")
    func roundTrip() throws {
        let home = try TemporaryDirectory()
        let path = home.appending("log").path
        var generator = SeededGenerator(seed: 1)
        let calls = (1...500).map { SharingCall.random(keys: 6, value: $0, using: &generator) }
        let results: [ObservedCall.Result] = [.none, .value(nil), .value(7), .wasDone(true), .wasDone(false)]
        do {
            let log = try SharingLog(path: path)
            for (number, call) in calls.enumerated() {
                log.begin(number, call)
                if number % 7 == 3 {
                    log.error(number, "no space\nleft")
                } else {
                    log.end(number, results[number % 5], at: SharingSetup.now)
                }
            }
        }
        let history = SharingHistory(try Data(contentsOf: home.appending("log")), process: 3)
        #expect(history.calls.map(\.call) == calls)
        #expect(history.calls.map(\.process) == calls.map { _ in 3 })
        for (number, call) in history.calls.enumerated() {
            #expect((call.end == nil) == (number % 7 == 3))
            if let end = call.end { #expect(end >= call.begin && call.result == results[number % 5]) }
        }
        #expect(history.errors.count == 71 && history.errors.allSatisfy { $0.text.hasSuffix("no space left") })
    }

    @Test("ignores a line that a kill has cut off, and no other")
    func cutOff() {
        func read(_ text: String) -> SharingHistory { SharingHistory(Data(text.utf8), process: 1) }
        let begun = read("? 1 100 set 3 7\n! 1 10")
        #expect(begun.calls.count == 1 && begun.calls[0].end == nil && begun.errors.isEmpty)
        #expect(read("? 1 100 set").calls.isEmpty && read("").calls.isEmpty)
        #expect(read("? 1 100 set 3 7\n! 1 10\n! 1 200 -\n").errors.count == 1)
        #expect(read("! 1 200 -\n").errors.count == 1)
    }

    @Test("tells values from damaged bytes")
    func payloads() {
        let payload = SharingSetup.payload(of: 2_000_017, padding: 300)
        #expect(SharingSetup.value(of: payload) == 2_000_017)
        #expect(SharingSetup.value(of: SharingSetup.payload(of: 1, padding: 0)) == 1)
        #expect(SharingSetup.value(of: payload.dropLast()) == nil)
        #expect(SharingSetup.value(of: payload + [1]) == nil)
        #expect(SharingSetup.value(of: Data()) == nil)
    }

    @Test("counts a removal of several keys for each of them")
    func concerned() {
        func keys(_ target: SharingCall.Target) -> [Int] { SharingCall(.clear, target).concerned(of: 5) }
        #expect(keys(.root) == [0, 2, 4] && keys(.namespace) == [1, 3] && keys(.everything) == [0, 1, 2, 3, 4])
    }
}
