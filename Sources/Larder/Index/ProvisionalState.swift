import LarderFiles

/// Whether the entries of the index can be believed; owns the reconciliation of files and index.
///
/// After an unclean close the index is *provisional*: an entry is a hint until its file has been looked at. Asking
/// whether it is costs reading a flag.
final class ProvisionalState: Sendable {
    private let flag: Flag
    private let reconciliation: Lock<Reconciliation>

    init(_ reconciliation: Reconciliation) {
        flag = Flag(!reconciliation.isConsistent)
        self.reconciliation = Lock(reconciliation)
    }

    /// True while entries are hints.
    var isSet: Bool { flag.isSet }

    /// True until every file that has to be has been looked at once.
    var isReconciling: Bool { isSet && !reconciliation.withLock { $0.hasScanned } }

    /// True while there may be files of any key that nobody has read.
    var mayHaveUnread: Bool { isSet && reconciliation.withLock { !$0.hasScanned || $0.hasUnread } }

    /// True while a damaged index is reconciled: an entry may be the mistake, and its file right.
    var isRepairing: Bool { isSet && reconciliation.withLock { !$0.hasScanned && $0.isDamaged } }

    /// True when entries and files agree.
    var isConsistent: Bool { reconciliation.withLock { $0.isConsistent } }

    /// Entries up to this number are not answered. Ask before looking an entry up: an adopted entry is published before
    /// the horizon falls.
    var horizon: UInt64 { reconciliation.withLock { $0.horizon } }

    /// Clears whose files may not all be known.
    var cleared: ClearMarks { reconciliation.withLock { $0.cleared } }

    /// Files that must not be deleted for an expiry that nobody could verify.
    var unverifiable: Set<UInt64> { isSet ? reconciliation.withLock { Set($0.unverifiable.keys) } : [] }

    /// Reads or changes the reconciliation.
    func update<Result>(_ body: (inout Reconciliation) -> Result) -> Result {
        reconciliation.withLock(body)
    }

    /// Replaces the reconciliation, with the directory. Call it in a barrier of the disk queue, before entries that it
    /// is about can be seen.
    func replace(with reconciliation: Reconciliation) {
        self.reconciliation.withLock { $0 = reconciliation }
        flag.set(!reconciliation.isConsistent)
    }

    /// Notes that everything has been looked at. Returns whether files are left that could not be read.
    func noteScanned() -> Bool {
        let (isConsistent, hasUnread) = reconciliation.withLock { reconciliation in
            reconciliation.finish()
            return (reconciliation.isConsistent, reconciliation.hasUnread)
        }
        if isConsistent { flag.set(false) }
        return hasUnread
    }
}
