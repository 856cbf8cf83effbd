import Foundation
import LarderTestSupport
import LarderTesting

extension SharingStorm {
    /// Renames the directory for a moment, or deletes it. Not while a process is opening it: that would create another.
    func befall(
        _ children: SharingChildren, _ report: inout SharingReport, _ generator: inout SeededGenerator
    ) throws {
        try awaitOpenings(children)
        let files = FileManager.default
        let away = children.directory.deletingLastPathComponent().appendingPathComponent("away")
        if mishap == .renames {
            try files.moveItem(at: children.directory, to: away)
            wait(until: SharingSetup.now + .random(in: 0...20_000_000, using: &generator))
            try files.moveItem(at: away, to: children.directory)
        } else if report.kills < kills / 2 {
            guard files.fileExists(atPath: children.directory.path) else { return }
            try files.moveItem(at: children.directory, to: away)
            // The processes may go on to create files in it.
            while files.fileExists(atPath: away.path) { try? files.removeItem(at: away) }
            report.deletion = SharingReport.Deletion(end: SharingSetup.now, witnesses: children.running.map(\.number))
        } else {
            return
        }
        report.mishaps += 1
    }
}

extension SharingStorm {
    private struct NoCall: Error {}

    /// Returns when every process has begun a call. A stopped one may keep others from opening the directory.
    private func awaitOpenings(_ children: SharingChildren) throws {
        let start = SharingSetup.now
        for child in children.running { child.resume() }
        while !children.running.allSatisfy(\.progress.hasLogged) {
            if SharingSetup.now - start > Self.longestWait { throw NoCall() }
            pause()
        }
    }
}

extension SharingReport {
    /// The last deletion of the directory.
    struct Deletion {
        let end: UInt64
        /// The processes that had it open.
        let witnesses: [Int]

        typealias Logged = [(process: SharingProcess, calls: [SharingHistory.Call])]

        /// Returns the moment at which each witness has stored something in the new directory, or is dead. Until then
        /// calls may fail.
        func settled(_ logged: Logged) -> UInt64 {
            witnesses(in: logged).map { firstSet(in: $0.calls)?.end ?? $0.process.death ?? .max }.max() ?? end
        }

        /// Returns the witnesses that have called often, and not stored anything.
        func stragglers(_ logged: Logged) -> [Int] {
            witnesses(in: logged).filter { _, calls in
                firstSet(in: calls) == nil && calls.count { $0.begin > end } > 100
            }.map(\.process.number)
        }

        private func witnesses(in logged: Logged) -> Logged {
            logged.filter { witnesses.contains($0.process.number) }
        }

        private func firstSet(in calls: [SharingHistory.Call]) -> SharingHistory.Call? {
            calls.first { call in
                if case .set = call.call.operation { call.begin > end && call.end != nil } else { false }
            }
        }
    }
}

extension ObservedCall {
    /// Returns the call for a checker to which only the time after a moment matters. One that began before may have
    /// taken effect until then, or until its end, or never.
    func seen(after moment: UInt64) -> ObservedCall {
        if begin >= moment { return self }
        return ObservedCall(
            caller: caller, key: key, operation, begin: begin, end: nil, death: max(end ?? death ?? .max, moment))
    }
}
