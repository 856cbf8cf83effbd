/// The removals that a change of another process may still come after, although its number is lower: it was taken
/// earlier, and is published later. Such a change has ended before it is seen.
struct Graves: Sendable {
    private(set) var keys: [Key: UInt64] = [:]
    private(set) var scopes = ClearMarks()
    /// Scopes that were expired.
    private(set) var marks = ExpiryMarks()
    /// False where there are no other processes, and nothing is kept.
    private(set) var areKept = false

    init(areKept: Bool = false) {
        self.areKept = areKept
    }

    var isEmpty: Bool { keys.isEmpty && scopes.isEmpty && marks.isEmpty }

    mutating func add(_ key: Key, below number: UInt64) {
        if !areKept { return }
        keys[key] = max(number, keys[key] ?? 0)
    }

    mutating func add(_ scope: ClearScope, below number: UInt64) {
        if !areKept { return }
        scopes.add(scope, below: number)
    }

    mutating func add(_ mark: ExpiryMarks.Mark, to scope: ClearScope) {
        if !areKept { return }
        marks.add(mark, to: scope)
    }

    mutating func add(_ others: Graves) {
        areKept = areKept || others.areKept
        marks.add(others.marks)
        for (key, number) in others.keys { add(key, below: number) }
        for (scope, number) in others.scopes.numbers { add(scope, below: number) }
    }

    /// True when the entry was removed before it came.
    func cover(_ entry: IndexEntry, _ key: Key) -> Bool {
        if keys.isEmpty, scopes.isEmpty { return false }
        return keys[key] ?? 0 > entry.file || scopes.cover(entry)
    }

    /// Forgets what no change can come after any more: all with a lower number are known.
    ///
    /// `onlyKeys`: what concerns a scope is kept, as there are entries that have not been loaded.
    mutating func forget(through number: UInt64, onlyKeys: Bool) {
        keys = keys.filter { $0.value > number }
        if onlyKeys { return }
        scopes.forget(through: number)
        marks.forget(through: number)
    }

    /// The entry, with its life ended if its scope was expired before it came.
    func marked(_ entry: IndexEntry) -> IndexEntry {
        marks.isEmpty ? entry : marks.ending(entry) ?? entry
    }
}
