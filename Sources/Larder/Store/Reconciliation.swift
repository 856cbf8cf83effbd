/// What is still to be done after an unclean close, so that rows and files agree again.
///
/// It touches only numbers below this session's first.
struct Reconciliation: Sendable {
    /// Files whose footers have to be read, the newest last: those that no row mentions, and after damage all.
    private(set) var unread: [UInt64] = []
    /// Files that are to be deleted, the newest first: were an older one of the same key left, it would be adopted next time.
    private(set) var condemned: [UInt64] = []
    /// Files that rows mention and the directory does not have, with their keys.
    private(set) var missing: [(key: Key, file: UInt64)] = []
    /// Files below this number were removed by `removeAll`.
    let cleared: UInt64
    /// The same for single namespaces.
    private(set) var clearedNamespaces: [Namespace: UInt64] = [:]
    /// Clearings that the journal may not know of.
    private var unrecorded: [(number: UInt64, namespace: Namespace)] = []
    /// Files that rows mentioned when the directory was opened.
    private var mentioned: Set<UInt64> = []
    /// Everything has been looked at.
    private(set) var isFinished = true
    /// Rows and files agree. Until then removes are kept in mind.
    var isDone: Bool { isFinished && !hasResidue }
    /// Something could not be read or deleted; the next opening tries again.
    private(set) var hasResidue = false

    /// Nothing to do.
    init(cleared: UInt64 = 0) {
        self.cleared = cleared
    }

    /// Compares the rows of the index with the names in the directory. O(n log n).
    ///
    /// Where the index itself is `damaged`, a renewed life may be known to the files alone. `leftovers` are copies that were not
    /// finished.
    init(
        rows: [(key: Key, file: UInt64)], files: [UInt64], leftovers: [UInt64], cleared: UInt64,
        clearedNamespaces: [Namespace: UInt64], tombstones: [(number: UInt64, namespace: Namespace)], isDamaged: Bool
    ) {
        unrecorded = tombstones
        condemned = leftovers
        self.cleared = cleared
        self.clearedNamespaces = clearedNamespaces
        mentioned = Set(rows.map(\.file))
        let present = Set(files)
        unread = files.filter { [mentioned] in isDamaged || !mentioned.contains($0) }.sorted()
        missing = rows.filter { !present.contains($0.file) }
        isFinished = false
    }

    enum Step {
        case record(Namespace, below: UInt64)
        case examine(file: UInt64)
        case delete(file: UInt64)
        case check(key: Key, file: UInt64)
        case finish
    }

    /// The next thing to do: all files first, so that a row whose file is missing is forgotten only after adoption.
    mutating func next() -> Step {
        if let (number, namespace) = unrecorded.popLast() { return .record(namespace, below: number) }
        if let file = unread.popLast() { return .examine(file: file) }
        if let file = condemned.popLast() { return .delete(file: file) }
        if let row = missing.popLast() { return .check(key: row.key, file: row.file) }
        return .finish
    }

    /// The same, unless a row mentions the file: its payload may be whole where its footer is not.
    mutating func condemnUnmentioned(_ file: UInt64) {
        if !mentioned.contains(file) { condemn(file) }
    }

    /// Has a file deleted once all have been read. Files come in falling order.
    mutating func condemn(_ file: UInt64) {
        condemned.append(file)
    }

    /// Notes that files of a namespace below a number are dead.
    mutating func clear(_ namespace: Namespace, below number: UInt64) {
        clearedNamespaces[namespace] = max(number, clearedNamespaces[namespace] ?? 0)
    }

    /// Files of a namespace up to here are dead.
    func cleared(_ namespace: Namespace) -> UInt64 {
        max(cleared, clearedNamespaces[namespace] ?? 0)
    }

    mutating func leaveResidue() {
        hasResidue = true
    }

    mutating func finish() {
        mentioned = []
        isFinished = true
        if !hasResidue { clearedNamespaces = [:] }
    }
}
