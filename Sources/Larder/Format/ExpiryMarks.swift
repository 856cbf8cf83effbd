import LarderFiles

/// The scopes that a caller expired, each with a number and a time: every entry in the scope with an older last change
/// ends at that time, or when it expires earlier.
struct ExpiryMarks: Sendable {
    struct Mark: Hashable, Sendable {
        let number: UInt64
        let time: Timestamp
    }

    /// By scope; both numbers and times ascend.
    private(set) var scopes: [ClearScope: [Mark]] = [:]

    var isEmpty: Bool { scopes.isEmpty }
    /// The marks of each scope, by the number of the first.
    var inOrder: [(key: ClearScope, value: [Mark])] {
        scopes.inOrder { $0.value.first?.number ?? 0 }
    }
    var count: Int { scopes.values.reduce(0) { $0 + $1.count } }
    var numbers: [UInt64] { scopes.values.flatMap { $0.map(\.number) } }
    /// The lowest number; nil without marks.
    var lowestNumber: UInt64? { scopes.values.lazy.compactMap(\.first?.number).min() }

    /// The maximum number of marks per scope. Beyond it the two oldest are merged, and entries stored between them
    /// expire with the first. The bound limits the work that a forged index can cause.
    private static let most = 4096

    /// Adds a mark. Idempotent. O(log marks) for the newest, amortized.
    mutating func add(_ mark: Mark, to scope: ClearScope) {
        var marks = scopes.removeValue(forKey: scope) ?? []
        defer { scopes[scope] = marks }
        var position = Self.position(of: mark.number, in: marks)
        let rest = marks[position...]
        if let next = rest.first, next.number == mark.number || next.time < mark.time { return }
        marks.insert(mark, at: position)
        // The clock was set back: this mark ends every life that the older ones end, and ends it earlier.
        while position > 0, marks[position - 1].time > mark.time {
            position -= 1
            marks.remove(at: position)
        }
        if marks.count > Self.most {
            marks[1] = Mark(number: marks[1].number, time: marks[0].time)
            marks.remove(at: 0)
        }
    }

    mutating func add(_ others: ExpiryMarks) {
        for (scope, marks) in others.scopes {
            for mark in marks { add(mark, to: scope) }
        }
    }

    mutating func removeAll() {
        scopes = [:]
    }

    mutating func forget(through number: UInt64) {
        scopes = scopes.mapValues { $0.filter { $0.number > number } }.filter { !$0.value.isEmpty }
    }

    /// Returns the entry with its life ended by the marks; nil when no mark ends it. O(its tags), times O(log marks).
    ///
    /// A life that expired by itself keeps its end, but is ended too: setting the clock back does not revive it.
    func ending(_ entry: IndexEntry) -> IndexEntry? {
        guard let first = first(of: entry, above: entry.change) else { return nil }
        if entry.life.isEnded, first.time >= entry.life.expires { return nil }
        var ended = entry
        ended.life = .ended(at: min(first.time, entry.life.expires))
        ended.change = first.number
        return ended
    }

    /// Returns the life of an entry that is older than all the marks, whatever the number of its last change; nil when
    /// none concerns it.
    func endedLife(ofOlder entry: IndexEntry) -> Life? {
        first(of: entry, above: 0).map { .ended(at: min($0.time, entry.life.expires)) }
    }

    /// True when an entry is in a scope with a mark.
    func concern(_ entry: IndexEntry) -> Bool { first(of: entry, above: 0) != nil }

    /// Returns the mark with the earliest time among those of the entry's scopes with a higher number.
    private func first(of entry: IndexEntry, above number: UInt64) -> Mark? {
        var first: Mark?
        forEachScope(of: entry) { marks in
            let position = Self.position(of: number + 1, in: marks)
            guard position < marks.count, case let mark = marks[position] else { return }
            if let found = first, (found.time, found.number) < (mark.time, mark.number) { return }
            first = mark
        }
        return first
    }

    private func forEachScope(of entry: IndexEntry, _ body: ([Mark]) -> Void) {
        if let marks = scopes[.everything] { body(marks) }
        if let marks = scopes[.namespace(entry.namespace)] { body(marks) }
        for tag in entry.tags {
            if let marks = scopes[.tag(tag)] { body(marks) }
        }
    }

    /// The position of the first mark that has the number or a higher one. O(log marks).
    private static func position(of number: UInt64, in marks: [Mark]) -> Int {
        if let last = marks.last, last.number < number { return marks.count }
        var (low, high) = (0, marks.count)
        while low < high, case let middle = (low + high) / 2 {
            if marks[middle].number < number { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
