import Foundation
import LarderTestSupport
import LarderTesting

@testable import Larder

/// Processes that change a few keys of one directory, and are killed and stopped at random moments.
struct SharingStorm {
    var processes = 8
    /// At least; the storm goes on until it has also killed a process in a call, and the like.
    var kills = 200
    /// Of a hundred actions, how many stop a process for a while; the others kill one.
    var stopPercent = 40
    /// The calls that the processes begin between two actions.
    var strides = 1...60
    var keys = 6
    /// Whether half of the values are in segments.
    var hasSegments = false
    /// The mishaps of the directory.
    var mishap: Mishap?
    /// Nobody is killed until so many calls have begun, then all are, and files of the index whose names begin with one
    /// of these are deleted.
    var loss: (calls: Int, names: [String])?
    /// The name of a register that the processes use instead of a cache.
    var register: String?
    var seed: UInt64 = 1

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
    /// The times for which a process is stopped, in milliseconds. Others may wait for it, so these are not counted in
    /// calls; no expectation depends on them.
    private static let stopTimes = 5...100
    /// The calls that a process has begun at least when it is killed.
    private static let lives = 1...20
    /// Of a hundred processes, how many may be killed before that: while they start or open the directory.
    private static let earlyKillPercent = 5
    /// Whoever has waited for this long hangs. Ten minutes, in nanoseconds.
    static let longestWait: UInt64 = 600_000_000_000

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
        if let loss {
            try awaitCalls(loss.calls, of: children, &report)
        } else {
            try unleash(children, &report)
        }
        children.killAll()
        try loseIndex(of: home.appending("cache"))
        report.errors += children.failures
        let reads = register == nil ? finalReads(home.appending("cache"), &report) : []
        report.check(
            children.all, keys: keys, finalReads: reads, evicts: hasSegments && mishap == .fullDisk)
        if !report.isClean { keep(home.url) }
        return report
    }

    /// Kills and stops processes until there were enough kills, and until what the storm is to show has happened. It
    /// waits for calls, not for moments: a machine of any speed sees as many.
    private func unleash(_ children: SharingChildren, _ report: inout SharingReport) throws {
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<processes { try children.start() }
        var stops = SharingStops()
        var seen = Seen()
        var lastKill = SharingSetup.now
        while report.kills < kills || !isDone(seen, stops) {
            if report.kills >= kills, SharingSetup.now - lastKill > Self.longestWait {
                report.errors.append("in ten minutes not everything has happened: \(seen), \(stops.hasSeenCalls)")
                return
            }
            let calls = children.calls + Int.random(in: strides, using: &generator)
            guard wait(for: { children.calls >= calls }, children, &stops, &report) else { return }
            if mishap == .renames || mishap == .deletions, isMishapDue(report, &generator) {
                try befall(children, &report, &generator)
                continue
            }
            guard let child = children.running.randomElement(using: &generator) else { return }
            if generator.chance(stopPercent) {
                if child.isStopped { continue }
                let time = UInt64(Int.random(in: Self.stopTimes, using: &generator)) * 1_000_000
                stops.stop(child, for: time, beside: children.running)
                report.stops += 1
            } else {
                let calls = generator.chance(Self.earlyKillPercent) ? 0 : Int.random(in: Self.lives, using: &generator)
                guard wait(for: { child.progress.calls >= calls }, children, &stops, &report) else { return }
                stops.forget(child)
                guard children.kill(child) else { return }
                seen.note(child.progress)
                if report.kills < kills { lastKill = SharingSetup.now }
                report.kills += 1
                try children.start()
            }
        }
    }

    /// Waits for calls, the last of them beside a process that is stopped and may keep the others from going on.
    private func awaitCalls(_ calls: Int, of children: SharingChildren, _ report: inout SharingReport) throws {
        for _ in 0..<processes { try children.start() }
        var stops = SharingStops()
        guard wait(for: { children.calls >= calls }, children, &stops, &report) else { return }
        children.running.first?.stop()
        report.stops += 1
        let end = SharingSetup.now + 50_000_000
        _ = wait(for: { children.calls >= calls + 100 || SharingSetup.now > end }, children, &stops, &report)
        report.loss = SharingSetup.now
    }

    private func loseIndex(of directory: URL) throws {
        guard let loss else { return }
        for name in try FileManager.default.contentsOfDirectory(atPath: directory.path)
        where loss.names.contains(where: name.hasPrefix) {
            try FileManager.default.removeItem(at: directory.appendingPathComponent(name))
        }
    }

    /// What the processes that were killed have shown.
    private struct Seen {
        var isKilledInCall = false
        var isRefused = false

        mutating func note(_ progress: SharingProgress) {
            if progress.isCalling { isKilledInCall = true }
            if progress.refused > 0 { isRefused = true }
        }
    }

    private func isDone(_ seen: Seen, _ stops: SharingStops) -> Bool {
        seen.isKilledInCall && (seen.isRefused || mishap != .fullDisk) && (stops.hasSeenCalls || stopPercent == 0)
    }

    /// Returns true once a condition holds; false when a process has ended by itself, or nothing happens any more.
    private func wait(
        for condition: () -> Bool, _ children: SharingChildren, _ stops: inout SharingStops,
        _ report: inout SharingReport
    ) -> Bool {
        let start = SharingSetup.now
        while !condition() {
            if children.running.contains(where: { $0.death != nil }) { return false }
            if SharingSetup.now - start > Self.longestWait {
                report.errors.append("the processes have begun too few calls in ten minutes")
                return false
            }
            pause()
            stops.resumeSome()
        }
        stops.resumeSome()
        return true
    }

    /// Now and then, and at least once.
    private func isMishapDue(_ report: SharingReport, _ generator: inout SeededGenerator) -> Bool {
        generator.chance(Self.mishapPercent) || report.mishaps == 0 && report.kills >= kills / 4
    }

    func wait(until time: UInt64) {
        let now = SharingSetup.now
        if time > now { Thread.sleep(forTimeInterval: Double(time - now) / 1e9) }
    }

    /// The pause between two looks at a condition.
    func pause() { wait(until: SharingSetup.now + 1_000_000) }

    /// Reads every key in this process: at once, and again after the cleanup.
    private func finalReads(_ directory: URL, _ report: inout SharingReport) -> [ObservedCall] {
        var reads: [ObservedCall] = []
        do {
            let failures = FailureNotes()
            let cache = try DiskCache(
                directory: directory,
                configuration: SharingSetup.configuration(isShared: processes > 1, hasSegments: hasSegments) {
                    if loss == nil { failures.add("event: \($0)") }
                })
            for round in 0..<2 {
                for key in 0..<keys {
                    let begin = SharingSetup.now
                    let data = cache.namespace(SharingCall.namespace(ofKey: key))
                        .data(forKey: SharingCall.name(ofKey: key))
                    let value = data.flatMap(SharingSetup.value(of:))
                    if data != nil && value == nil { failures.add("the value of key \(key) is damaged") }
                    // While the index is rebuilt, a read may miss.
                    if loss != nil, round == 0, data == nil { continue }
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

/// The processes of a storm that are stopped for a while.
struct SharingStops {
    private struct Stopped {
        let child: SharingProcess
        let end: UInt64
        /// The others, with the calls that they had begun and their stops at the beginning.
        let others: [(process: SharingProcess, calls: Int, stops: Int)]

        /// Whether another process, not stopped itself, has gone through a whole call since.
        var hasSeenCall: Bool {
            others.contains { process, calls, stops in
                process.progress.calls >= calls + 2 && process.stops.count == stops && !process.isStopped
            }
        }
    }

    private var stopped: [Stopped] = []
    /// Whether another process has called beside a stopped one.
    private(set) var hasSeenCalls = false

    mutating func stop(_ child: SharingProcess, for time: UInt64, beside running: [SharingProcess]) {
        child.stop()
        // Afterwards: the calls that others begin from now on end during the stop or later.
        let others = running.filter { $0 !== child && !$0.isStopped }
        stopped.append(
            Stopped(
                child: child, end: SharingSetup.now + time,
                others: others.map { ($0, $0.progress.calls, $0.stops.count) }))
    }

    /// Resumes the processes whose time has come.
    mutating func resumeSome() {
        let now = SharingSetup.now
        for stop in stopped where stop.end <= now {
            forget(stop.child)
            stop.child.resume()
        }
    }

    /// A process is about to be resumed or killed.
    mutating func forget(_ child: SharingProcess) {
        for stop in stopped where stop.child === child && child.isStopped && !hasSeenCalls {
            hasSeenCalls = stop.hasSeenCall
        }
        stopped.removeAll { $0.child === child }
    }
}
