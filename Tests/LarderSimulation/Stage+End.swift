import Larder
import LarderFiles
import LarderTesting

/// The end of a story: everybody reads, and nothing is left.
extension Stage {
    /// Brings everything to rest, lets everybody read, and checks what is left.
    func finish() {
        play(.fill(false))
        release()
        for process in inPlaces { simulator.resume(process: process.files.process) }
        settle()
        readAll()
        for process in living { begin(.flush, process, 0) }
        settle()
        isEnding = true
        if hasDamage {
            // Every state has a way out.
            for process in living { begin(.remove(0), process, 0) }
            settle()
        }
        readAll()
        for process in all where process.isLiving && process.busy > 0 {
            find("calls of process \(process.place) never return: \(simulator.threads(of: process.files.process))")
        }
        for process in living { begin(.close, process, 0) }
        settle()
        if !findings.isEmpty { return }
        checkFailures()
        checkAlone()
    }

    private func readAll() {
        for process in living {
            for key in 0..<Self.keys { begin(.get(key), process, 0) }
        }
        settle()
    }

    private func checkFailures() {
        // A power cut tears values that were not synced.
        if hasDamage || wasFull || story.acts.contains(.powerCut) { return }
        for process in all {
            if let failure = process.failures.first { find("process \(process.place) reports \(failure)") }
        }
    }

    /// One more process finds everything, and nothing else.
    private func checkAlone() {
        play(.open(0))
        settle()
        guard let last = places[0], last.isOpen else { return find("nobody can open the cache any more") }
        readAll()
        begin(.flush, last, 0)
        readAll()
        note(.mayMiss(false))
        readAll()
        let count = Lock(0)
        last.perform(on: 0) { [self] in
            guard let disk = last.disk else { return }
            do {
                if hasDamage { try disk.verify() }
                let report = try disk.verify()
                if !report.isClean && !(mayLeaveFiles && report.hasOnlyOrphans) { find("not clean: \(report)") }
                count.withLock { $0 = disk.count + disk.namespace(SimulatedProcess.namespace).count }
            } catch {
                find("verifying fails: \(error)")
            }
        }
        settle()
        let present = (0..<Self.keys).count { key in
            if case .read(.some, _) = records.operations[key]?.last?.effect { true } else { false }
        }
        let counted = count.withLock { $0 }
        if counted != present, findings.isEmpty { find("\(counted) entries are counted, \(present) are there") }
        if let limit = story.setting.countLimit, counted > limit {
            find("\(counted) entries exceed the limit of \(limit)")
        }
        begin(.close, last, 0)
        settle()
        checkLeftovers(counted)
    }

    /// What is in the directory when all have closed it.
    private func checkLeftovers(_ count: Int) {
        let image = files.image
        let names = image.names(at: "/cache")
        let journals = names.count { $0.hasPrefix("journal-") }
        if journals > 2 { find("\(journals) journals are left") }
        if let name = names.first(where: { $0.hasSuffix(".tmp") }) { find("\(name) is left") }
        // What is in segments has no file.
        let entries = image.names(at: "/cache/entries").filter { $0 != "segments" }
        if mayLeaveFiles { return }
        if story.setting.hasSegments ? entries.count > count : entries.count != count {
            find("\(count) entries have the files \(entries)")
        }
    }

    /// Files of processes that died or were stopped may stay when the last one closes. The ledger ends that.
    private var mayLeaveFiles: Bool {
        story.acts.contains { act in
            switch act {
            case .kill, .killIn, .stop, .powerCut: true
            // Whoever clears deletes the files of others, unless it reads the index again, and sees none (seed 5704).
            case .call(_, _, .clear), .call(_, _, .clearTag), .call(_, _, .expireAll): story.setting.isShared
            default: false
            }
        }
    }

    func checkHistory() {
        for number in begun.indices where !begun[number].isOver {
            record(number, end: nil, limit: begun[number].process.death ?? tick())
        }
        records.finish()
        let tags = records.tags
        // Where a full disk has no room to clean segments, whole ones are evicted.
        let evicts = story.setting.countLimit != nil || wasFull && story.setting.hasSegments
        for (key, operations) in records.operations.inOrder(of: { $0.key }) {
            var history = History(
                slides: story.setting.slides, evicts: evicts, tags: tags, now: ManualClock().milliseconds)
            guard let (origin, text) = history.contradiction(operations, changes) else { continue }
            find("key \(key): \(describe(origin)) \(text)")
        }
    }

    private func describe(_ number: Int) -> String {
        let call = begun[number]
        let seen = call.seen.map { "saw \($0)" } ?? "did not return"
        return "process \(call.process.place)'s \(call.call) from \(call.begin) \(seen)"
    }

    /// The calls that tell something about a key, in the order in which they began.
    package func history(of key: Int) -> [String] {
        let operations = records.operations[key] ?? []
        return operations.sorted { $0.begin < $1.begin }.map { operation in
            let end = operation.end.map { "\($0)" } ?? "by \(operation.limit), or never"
            return "\(operation.begin) to \(end): \(describe(operation.origin)); \(operation.effect)"
        } + changes.map { "\($0.0): \($0.1)" }
    }
}

extension VerificationReport {
    fileprivate var hasOnlyOrphans: Bool { damaged.isEmpty && missing.isEmpty && unreadable.isEmpty }
}
