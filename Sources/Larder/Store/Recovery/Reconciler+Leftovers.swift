import LarderFiles

/// After a kill, the entries of an undamaged index can be trusted at once. In the background, they are compared with
/// all files: the killed session may have left files that no line mentions, and entries whose files it had just
/// deleted.
extension Reconciler {
    /// Groups that are read in one step.
    private static let groups = 16

    /// Reads all groups in the background, without keeping them, and then lets others join: nobody who lives could save
    /// anew what is damaged, and beside others it cannot be repaired. O(entries).
    private func verifyGroups() {
        maintenance.begin(.verify) { [weak self] in
            guard let self, let (run, start) = verification.withLock({ state in state.next.map { (state.run, $0) } })
            else { return false }
            var next: Int?
            if !context.isEnding.isSet, let frozen = index.freeze() {
                let end = min(start + Self.groups, frozen.isLoaded.count)
                for group in start..<max(start, end) where !frozen.isLoaded[group] {
                    if frozen.saved.content(of: group).isDamaged { index.load(group, of: frozen.groups) }
                }
                if end < frozen.isLoaded.count { next = end }
            }
            // Another directory may have been opened meanwhile.
            verification.withLock { if $0.run == run { $0.next = next } }
            finishJoining()
            return verification.withLock { $0.next != nil }
        }
    }

    /// `verifying`: the index is that of dead processes, and nobody has read its groups.
    func finishJoining(verifying: Bool) {
        if !verifying { return finishJoining() }
        verification.withLock {
            $0.run += 1
            $0.next = 0
        }
        verifyGroups()
    }

    /// Does a part of the comparison; false when it is done. The end of the session cuts it short: the next one begins
    /// anew.
    func findLeftovers(_ search: inout LeftoverSearch?) -> Bool {
        guard provisional.hasLeftovers, !context.isEnding.isSet else {
            search = nil
            return false
        }
        // Another directory may have been opened meanwhile.
        if let found = search, !disk.runAnyway({ $0 === found.directory }) { search = nil }
        // The waiting lines of these groups mention superseded files.
        if index.loadSome(Self.groups, { saved, group in saved.lines.hasLines(group) }) { return true }
        index.loadChanged()
        guard var found = search else {
            let last = info.lastNumberBefore
            let listed = reporter.attempt { () throws(CacheError) in try list() } ?? nil
            search = listed.map { LeftoverSearch($1, of: $0, through: last) }
            return search != nil
        }
        search = nil
        let hasMore = found.takeSome(Self.groups, of: index)
        search = consume found
        if hasMore { return true }
        defer { search = nil }
        let isDone = try? disk.run { directory in
            guard provisional.hasLeftovers, var found = search, found.directory === directory else { return false }
            // Damage was found meanwhile.
            if provisional.distrusted != nil { return true }
            found.take(index)
            let findings = found.findings(isDamaged: false)
            if !findings.isEmpty { provisional.take(findings) }
            provisional.noteLeftoversFound()
            if provisional.isConsistent { forgetTombstones() }
            return true
        }
        if isDone == true {
            reaper.deleteAllInBackground()
            // The sums now include the last changes.
            evictor.enforceInBackground()
        }
        return provisional.isReconciling
    }
}
