/// What is still to be done after an unclean close, so that rows and files agree again.
///
/// It touches only numbers below this session's first.
struct Reconciliation: Sendable {
    /// Files whose footers have to be read, the newest last: those that no row mentions, and after damage all.
    private(set) var unread: [UInt64] = []
    /// Files that are to be deleted, the newest first: were an older one of the same key left, it would be adopted next time.
    private(set) var condemned: [(file: UInt64, key: Key?)] = []
    /// Files that rows mention and the directory does not have, with their keys.
    private(set) var missing: [(key: Key, file: UInt64)] = []
    /// What was removed at once: older files of it are dead.
    private(set) var cleared: Clearings
    /// Clearings that the journal may not know of.
    private var unrecorded: [(number: UInt64, scope: ClearScope)] = []
    /// Files that rows mentioned when the directory was opened.
    private var mentioned: Set<UInt64> = []
    /// Everything has been looked at.
    private(set) var isFinished = true
    /// Rows and files agree. Until then removes are kept in mind.
    var isDone: Bool { isFinished && !hasResidue }
    /// Something could not be read or deleted; the next opening tries again.
    private(set) var hasResidue = false

    /// Nothing to do.
    init(cleared: Clearings = Clearings()) {
        self.cleared = cleared
        self.cleared.keepOnly(.everything)
    }

    /// Compares the rows of the index with the names in the directory. O(n log n).
    ///
    /// Where the index itself is `damaged`, a renewed life may be known to the files alone. `leftovers` are copies that were not
    /// finished.
    init(
        rows: [(key: Key, file: UInt64)], files: [UInt64], leftovers: [UInt64], cleared: Clearings,
        tombstones: [(number: UInt64, scope: ClearScope)], isDamaged: Bool
    ) {
        unrecorded = tombstones
        condemned = leftovers.map { ($0, nil) }
        self.cleared = cleared
        mentioned = Set(rows.map(\.file))
        let present = Set(files)
        unread = files.filter { [mentioned] in isDamaged || !mentioned.contains($0) }.sorted()
        missing = rows.filter { !present.contains($0.file) }
        isFinished = false
    }

    enum Step {
        case record(ClearScope, below: UInt64)
        case examine(file: UInt64)
        case delete(file: UInt64, of: Key?)
        case check(key: Key, file: UInt64)
        case finish
    }

    /// The next thing to do: all files first, so that a row whose file is missing is forgotten only after adoption.
    mutating func next() -> Step {
        if let (number, scope) = unrecorded.popLast() { return .record(scope, below: number) }
        if let file = unread.popLast() { return .examine(file: file) }
        if let (file, key) = condemned.popLast() { return .delete(file: file, of: key) }
        if let row = missing.popLast() { return .check(key: row.key, file: row.file) }
        return .finish
    }

    /// The same, unless a row mentions the file: its payload may be whole where its footer is not.
    mutating func condemnUnmentioned(_ file: UInt64) {
        if !mentioned.contains(file) { condemned.append((file, nil)) }
    }

    /// Has a file deleted once all have been read. Files come in falling order.
    mutating func condemn(_ file: UInt64, of key: Key) {
        condemned.append((file, key))
    }

    /// Notes that older files of a namespace or a tag are dead.
    mutating func clear(_ scope: ClearScope, below number: UInt64) {
        cleared.add(scope, below: number)
    }

    mutating func leaveResidue() {
        hasResidue = true
    }

    mutating func finish() {
        mentioned = []
        isFinished = true
        if !hasResidue { cleared.keepOnly(.everything) }
    }
}
