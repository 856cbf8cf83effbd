import LarderFiles

/// After a kill, the entries of an undamaged index can be trusted at once. In the background, they are compared with
/// all files: the killed session may have left files that no line mentions, and entries whose files it had just
/// deleted.
extension Reconciler {
    /// Groups that are read in one step.
    private static let groups = 16

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
