import Foundation
import LarderTestSupport

/// The findings of a storm of processes.
struct SharingReport: CustomStringConvertible {
    let seed: UInt64
    var kills = 0
    var stops = 0
    var mishaps = 0
    var deletion: Deletion?
    /// When the first process was about to be killed before the index was lost. Nobody has seen for certain what the
    /// others returned from then on: the line of a change that was under way may be lost.
    var loss: UInt64?
    var errors: [String] = []
    private(set) var violations: [Linearizability.Violation] = []
    private(set) var impossibleReads: [Linearizability.ImpossibleRead] = []
    /// The number of calls of each kind.
    private(set) var counts: [String: Int] = [:]
    private(set) var unfinished = 0
    /// The calls that failed because the disk was full.
    private(set) var refused = 0
    /// The values that went with their segment because the disk was full.
    private(set) var evicted = 0
    /// The longest call, finished or not, of a process that was not stopped meanwhile; in nanoseconds.
    private(set) var longest: (time: UInt64, text: String) = (0, "none")
    /// The longest call of each kind beside a stopped process, in nanoseconds, of processes that were not stopped
    /// themselves during the call.
    private(set) var longestBesideStopped: [String: UInt64] = [:]
    /// The seconds that checking took.
    private(set) var checkTime = 0.0

    init(seed: UInt64) { self.seed = seed }

    var calls: Int { counts.values.reduce(0, +) }
    var isClean: Bool { errors.isEmpty && violations.isEmpty && impossibleReads.isEmpty }

    /// Reads the logs of processes that have ended, and decides whether each key has one history.
    ///
    /// `evicts`: the processes may evict values, and be killed before they log that.
    mutating func check(_ processes: [SharingProcess], keys: Int, finalReads: [ObservedCall], evicts: Bool) {
        var histories = Dictionary(grouping: finalReads, by: \.key)
        var failures: [(time: UInt64, text: String)] = []
        var logged: Deletion.Logged = []
        for process in processes {
            // A process that was killed early has no log.
            let log = (try? Data(contentsOf: process.log)) ?? Data()
            let history = SharingHistory(log, process: process.number)
            failures += history.errors
            logged.append((process, history.calls))
            evicted += history.evictions.count
            var evictions = history.evictions
            if evicts, let death = process.death {
                evictions += (0..<keys).map { (death, SharingCall.name(ofKey: $0)) }
            }
            for (time, key) in evictions {
                // The process may be stopped between an eviction and its line in the log.
                let begin = min(time, process.started)
                histories[key, default: []].append(
                    ObservedCall(caller: 0, key: key, .clear, begin: begin, end: nil, death: time))
            }
            for call in history.calls {
                counts[call.call.kind, default: 0] += 1
                if call.end == nil { unfinished += 1 }
                if call.isRefused { refused += 1 }
                for observed in call.observed(keys: keys, death: process.death) {
                    histories[observed.key, default: []].append(observed)
                }
            }
        }
        if let deletion {
            errors += deletion.stragglers(logged).map { "process \($0) has not stored anything since the deletion" }
            let moment = deletion.settled(logged)
            failures.removeAll { 0 < $0.time && $0.time < moment }
            // The deletion has removed each key.
            histories = histories.mapValues { calls in
                calls.map { $0.seen(after: moment) }
                    + [ObservedCall(caller: 0, key: calls[0].key, .clear, begin: 0, end: nil, death: moment)]
            }
        }
        if let loss {
            histories = histories.mapValues { calls in calls.map { $0.caller == 0 ? $0 : $0.unfinished(after: loss) } }
        }
        errors += failures.map(\.text)
        measure(logged)
        let begin = SharingSetup.now
        for (_, calls) in histories.sorted(by: { $0.key < $1.key }) {
            violations += Linearizability.violations(in: calls)
            impossibleReads += Linearizability.impossibleReads(in: calls)
        }
        checkTime = Double(SharingSetup.now - begin) / 1e9
    }

    /// Finds the longest calls, and those beside stopped processes.
    private mutating func measure(_ logged: Deletion.Logged) {
        let stops = logged.flatMap { process, _ in process.stops.map { (number: process.number, period: $0) } }
            .sorted { $0.period.lowerBound < $1.period.lowerBound }
        let longestStop = stops.map { $0.period.upperBound - $0.period.lowerBound }.max() ?? 0
        for (process, calls) in logged {
            // Calls come in the order of time, and so do the stops that may overlap them.
            var first = 0
            for call in calls {
                guard let end = call.end ?? process.death else { continue }
                while first < stops.count, stops[first].period.lowerBound + longestStop < call.begin { first += 1 }
                let beside = stops[first...].prefix { $0.period.lowerBound <= end }
                    .filter { $0.period.upperBound >= call.begin }
                if beside.contains(where: { $0.number == call.process }) { continue }
                let time = end - call.begin
                if time > longest.time { longest = (time, "\(call.call) of process \(call.process)") }
                if beside.isEmpty || call.end == nil { continue }
                longestBesideStopped[call.call.kind] = max(longestBesideStopped[call.call.kind] ?? 0, time)
            }
        }
    }

    var description: String {
        let kinds = counts.sorted { $0.key < $1.key }.map { kind, count in
            let time = longestBesideStopped[kind].map { ", longest beside a stopped process \($0 / 1000) us" } ?? ""
            return "  \(kind): \(count)\(time)"
        }
        var lines = [
            "seed \(seed): \(calls) calls (\(unfinished) unfinished, \(refused) refused), \(evicted) evicted, \(kills) kills, \(stops) stops, "
                + "\(mishaps) mishaps; checked in \(Int(checkTime * 1000)) ms",
            "  longest call: \(longest.time / 1000) us (\(longest.text))",
        ]
        lines += kinds
        lines += errors.prefix(20).map { "  error: \($0)" }
        if errors.count > 20 { lines.append("  and \(errors.count - 20) more errors") }
        lines += violations.map { "  \($0)" }
        lines += impossibleReads.prefix(20).map { "  \($0)" }
        return lines.joined(separator: "\n")
    }
}

extension ObservedCall {
    /// A call that ended after a moment, or never, may have taken effect at any time.
    fileprivate func unfinished(after moment: UInt64) -> ObservedCall {
        if let end, end < moment { return self }
        return ObservedCall(caller: caller, key: key, operation, begin: begin, end: nil, death: nil)
    }
}
