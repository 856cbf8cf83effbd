import LarderFiles

/// Knows whether the entries of the index can be trusted; owns the reconciliation of files and index.
///
/// After an unclean close the index is *provisional*: an entry is a hint until its file has been checked. The check for
/// this state reads one flag.
final class ProvisionalState: Sendable {
    private let flag: Flag
    private let reconciliation: Lock<Reconciliation>
    /// Set after a kill, until the background work has found the files that the last session left.
    private let leftovers: Flag
    /// Set for the session once this process could not record a removal, or one that had the directory before.
    private let lacking: Flag

    init(_ reconciliation: Reconciliation, hasLeftovers: Bool, lacksRecords: Bool = false) {
        lacking = Flag(lacksRecords)
        flag = Flag(!reconciliation.isConsistent)
        leftovers = Flag(hasLeftovers)
        self.reconciliation = Lock(reconciliation)
    }

    /// True while entries are hints.
    var isSet: Bool { flag.isSet }

    /// True until every file that needs checking has been checked once.
    var isReconciling: Bool { isSet && !reconciliation.withLock { $0.hasScanned } }

    /// True while there may be unread files of any key.
    var mayHaveUnread: Bool {
        hasLeftovers || isSet && reconciliation.withLock { !$0.hasScanned || $0.hasUnread }
    }

    /// True while a tombstone may cover files that are neither read nor obsolete.
    var mayNeedTombstones: Bool {
        hasLeftovers || isSet && reconciliation.withLock { $0.isScanning || $0.hasUnread }
    }

    /// Notes that older files of a scope are dead, unless all files are known.
    func clear(_ scope: ClearScope, below number: UInt64) {
        if !isSettled { reconciliation.withLock { $0.clear(scope, below: number) } }
    }

    /// Notes that the lives of a scope have ended, unless all files are known.
    func expireNow(_ scope: ClearScope, _ mark: ExpiryMarks.Mark) {
        if !isSettled { reconciliation.withLock { $0.expireNow(scope, mark) } }
    }

    /// Returns how many numbers the first mark of the session has to skip.
    func takeSkip() -> UInt64 {
        let skip = reconciliation.withLock { $0.takeSkip() }
        return hasLeftovers ? max(skip, Reconciliation.concurrency) : skip
    }

    /// True while a damaged index is reconciled: where an entry and its file differ, the file may be right.
    var isRepairing: Bool { isSet && reconciliation.withLock { !$0.hasScanned && $0.isDamaged } }

    /// True while the reconciliation has steps left, if only the last one.
    var hasSteps: Bool { reconciliation.withLock { $0.isScanning || !$0.isConsistent } }

    /// True while files that may have newer values than a damaged index could not be read.
    var isDoubtful: Bool { isSet && reconciliation.withLock { $0.isDamaged && !$0.isConsistent } }

    /// The lowest number of the files that could not be read, whether or not the index is damaged. Nil: all are read.
    var lowestUnread: UInt64? { isSet ? reconciliation.withLock(\.lowestUnread) : nil }

    /// The segments among them.
    var unreadSegments: [FileID] {
        isDoubtful ? reconciliation.withLock { $0.unreadable.filter { $0.place.isWholeSegment && $0.number > 0 } } : []
    }

    /// True when entries and files agree.
    var isConsistent: Bool { reconciliation.withLock { $0.isConsistent } }

    /// True while a killed session may have left files, although the entries can be trusted.
    var hasLeftovers: Bool { leftovers.isSet }

    /// True when a removal may have no record.
    var lacksRecords: Bool { lacking.isSet }

    /// Notes that a removal has no record.
    func noteUnrecorded() { lacking.set() }

    /// True while the file of an entry may not exist, because a killed session had just deleted it, or its removal has
    /// no record.
    var mayLackFiles: Bool { isSet || hasLeftovers || lacksRecords }

    /// True when an entry whose file has not been looked at may not have one.
    func mustCheckFile(_ reconciliation: Reconciliation) -> Bool {
        !reconciliation.hasScanned || hasLeftovers || lacksRecords
    }

    /// True when entries and files agree, and every file is an entry's or obsolete.
    var isSettled: Bool { isConsistent && !hasLeftovers }

    /// Notes that the files of a killed session have been dealt with.
    func noteLeftoversFound() {
        reconciliation.withLock { reconciliation in
            leftovers.set(false)
            if reconciliation.isConsistent { reconciliation.finish() }
        }
    }

    /// Entries up to this number are not returned. Read it before looking an entry up: an adopted entry is published
    /// before the horizon falls.
    var horizon: UInt64 { reconciliation.withLock { $0.horizon } }

    /// Cleared scopes whose files may not all be known.
    var cleared: ClearMarks { reconciliation.withLock { $0.cleared } }

    /// The same for scopes that were expired.
    var marks: ExpiryMarks { isSet || hasLeftovers ? reconciliation.withLock { $0.marks } : ExpiryMarks() }

    /// Returns the life that the file of an entry knows and the index does not, if its number hides it from a mark of
    /// this session.
    func hiddenEnd(of found: IndexEntry) -> Life? {
        if !isSet { return nil }
        return reconciliation.withLock { reconciliation in
            if reconciliation.marks.ending(found) != nil { return nil }
            guard let life = reconciliation.ownMarks.endedLife(ofOlder: found), life != found.life else { return nil }
            return life
        }
    }

    /// Files that must not be deleted for an expiry that could not be verified.
    var unverifiable: Set<FileID> { isSet ? reconciliation.withLock { Set($0.unverifiable.keys) } : [] }

    /// Reads or changes the reconciliation.
    func update<Result>(_ body: (inout Reconciliation) -> Result) -> Result {
        reconciliation.withLock(body)
    }

    /// Makes the index provisional, because a part of it is damaged. Entries up to `number` are not returned until the
    /// files are listed. Returns false when the listing is already awaited.
    func distrust(through number: UInt64) -> Bool {
        reconciliation.withLock { reconciliation in
            flag.set()
            return reconciliation.distrust(through: number)
        }
    }

    /// Takes over the findings of a listing. Its files are examined next.
    func take(_ findings: Reconciliation.Findings) {
        reconciliation.withLock { reconciliation in
            flag.set()
            reconciliation.take(findings)
        }
    }

    /// The last number that is not trusted until the files are listed; nil when they are.
    var distrusted: UInt64? { isSet ? reconciliation.withLock { $0.distrusted } : nil }

    /// Replaces the reconciliation along with the directory. Call it in a barrier of the disk queue, before the new
    /// entries are visible.
    func replace(with reconciliation: Reconciliation, hasLeftovers: Bool = false) {
        self.reconciliation.withLock { state in
            state = reconciliation
            leftovers.set(hasLeftovers)
            flag.set(!reconciliation.isConsistent)
        }
    }

    /// Notes that every file has been checked. Returns whether unreadable files are left.
    func noteScanned() -> Bool {
        reconciliation.withLock { reconciliation in
            // Damage was found meanwhile: the files will be listed.
            if reconciliation.distrusted != nil { return true }
            reconciliation.finish()
            if reconciliation.isConsistent { flag.set(false) }
            return reconciliation.hasUnread
        }
    }
}
