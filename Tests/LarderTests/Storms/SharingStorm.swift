import Foundation
import LarderTestSupport
import LarderTesting

@testable import Larder

/// Processes that change a few keys of one directory, and are killed and stopped at random moments.
struct SharingStorm {
    var processes = 8
    var kills = 200
    /// Of a hundred actions, how many stop a process for a while; the others kill one.
    var stopPercent = 40
    /// The time between two actions, in milliseconds.
    var pauses = 1...30
    var keys = 6
    /// Whether half of the values are in segments.
    var hasSegments = false
    /// The mishaps of the directory.
    var mishap: Mishap?
    /// The name of a register that the processes use instead of a cache.
    var register: String?
    var seed = UInt64.random(in: 0..<1_000_000)

    enum Mishap {
        /// The disk is full at times. Calls that fail must have changed nothing.
        case fullDisk
        /// The directory has another name for a moment. No call may notice.
        case renames
        /// The directory is deleted, some times. Once every process has stored something afterwards, there is one
        /// history again.
        case deletions
    }

    /// Of a hundred actions, how many befall the directory.
    private static let mishapPercent = 15
    /// The longest time for which a process is stopped, in milliseconds.
    private static let stopTimes = 5...300
    /// Of a hundred processes that have not begun a call yet, how many are killed when their turn comes. More would
    /// leave no calls on a slow machine.
    private static let earlyKillPercent = 5
    /// The longest time that a process may take until its first call, in nanoseconds.
    static let longestStart: UInt64 = 60_000_000_000

    /// Runs the storm in a new directory, and checks what the processes have logged.
    func run() throws -> SharingReport {
        let home = try TemporaryDirectory()
        let logs = home.appending("logs")
        try FileManager.default.createDirectory(at: logs, withIntermediateDirectories: true)
        let children = SharingChildren(
            directory: home.appending("cache"), logs: logs, seed: seed, keys: keys,
            mode: [register ?? (processes > 1 ? "shared" : "exclusive")] + (mishap == .fullDisk ? ["full"] : [])
                + (hasSegments ? ["segments"] : []))
        defer { children.killAll() }
        var report = SharingReport(seed: seed)
        try unleash(children, &report)
        children.killAll()
        report.errors += children.failures
        let reads = register == nil ? finalReads(home.appending("cache"), &report) : []
        report.check(
            children.all, keys: keys, finalReads: reads, evicts: hasSegments && mishap == .fullDisk)
        if !report.isClean { keep(home.url) }
        return report
    }

    private func unleash(_ children: SharingChildren, _ report: inout SharingReport) throws {
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<processes { try children.start() }
        var resumptions: [(at: UInt64, child: SharingProcess)] = []
        var next = SharingSetup.now
        while report.kills < kills {
            next += UInt64(Int.random(in: pauses, using: &generator)) * 1_000_000
            while let first = resumptions.first, first.at < next {
                wait(until: first.at)
                first.child.resume()
                resumptions.removeFirst()
            }
            wait(until: next)
            next = max(next, SharingSetup.now)
            if mishap == .renames || mishap == .deletions, isMishapDue(report, &generator) {
                try befall(children, &report, &generator)
                continue
            }
            guard let child = children.running.randomElement(using: &generator) else { return }
            if generator.chance(stopPercent) {
                if child.isStopped { continue }
                child.stop()
                report.stops += 1
                let time = UInt64(Int.random(in: Self.stopTimes, using: &generator)) * 1_000_000
                resumptions.append((SharingSetup.now + time, child))
                resumptions.sort { $0.at < $1.at }
            } else {
                if !child.hasLogged, !generator.chance(Self.earlyKillPercent) {
                    if SharingSetup.now - child.started < Self.longestStart { continue }
                    report.errors.append("process \(child.number) has not begun a call in a minute")
                    return
                }
                resumptions.removeAll { $0.child === child }
                guard children.kill(child) else { return }
                report.kills += 1
                try children.start()
            }
        }
    }

    /// Now and then, and at least once.
    private func isMishapDue(_ report: SharingReport, _ generator: inout SeededGenerator) -> Bool {
        generator.chance(Self.mishapPercent) || report.mishaps == 0 && report.kills >= kills / 4
    }

    func wait(until time: UInt64) {
        let now = SharingSetup.now
        if time > now { Thread.sleep(forTimeInterval: Double(time - now) / 1e9) }
    }

    /// Reads every key in this process: at once, and again after the cleanup.
    private func finalReads(_ directory: URL, _ report: inout SharingReport) -> [ObservedCall] {
        var reads: [ObservedCall] = []
        do {
            let failures = FailureNotes()
            let cache = try DiskCache(
                directory: directory,
                configuration: SharingSetup.configuration(isShared: processes > 1, hasSegments: hasSegments) {
                    failures.add("event: \($0)")
                })
            for round in 0..<2 {
                for key in 0..<keys {
                    let begin = SharingSetup.now
                    let data = cache.namespace(SharingCall.namespace(ofKey: key))
                        .data(forKey: SharingCall.name(ofKey: key))
                    let value = data.flatMap(SharingSetup.value(of:))
                    if data != nil && value == nil { failures.add("the value of key \(key) is damaged") }
                    reads.append(
                        ObservedCall(
                            caller: 0, key: "key \(key)", .get, begin: begin, end: SharingSetup.now, .value(value)))
                }
                if round == 0 { try cache.flush() }
            }
            let segments = cache.statistics.segments
            let mostBytes = keys * 2_500 * 3 / 2 + 2 * cache.store.settings.segmentLength
            if hasSegments, segments.liveBytes + segments.deadBytes > mostBytes {
                failures.add("dead processes have left too much: \(segments)")
            }
            let verification = try cache.verify()
            if !verification.isClean { failures.add("\(verification)") }
            try cache.close()
            report.errors += failures.all
        } catch {
            report.errors.append("the final reading: \(error)")
        }
        return reads
    }

    /// Copies the logs and the directory to where the environment says.
    private func keep(_ home: URL) {
        guard let path = ProcessInfo.processInfo.environment["LARDER_LOGS"] else { return }
        let place = URL(fileURLWithPath: path).appendingPathComponent("storm-\(seed)")
        do {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            try? FileManager.default.removeItem(at: place)
            try FileManager.default.copyItem(at: home, to: place)
            print("sharing storm: logs and directory are in \(place.path)")
        } catch {
            print("sharing storm: the logs could not be kept: \(error)")
        }
    }
}
