import LarderFiles

/// The orders in which entries are evicted: that of their last use, and the same in the parts of `Rank`, where an entry
/// that is moved to another part counts as used. 32 bytes per slot.
struct UseOrder: Sendable {
    private let counter: AccessCounter
    private var all = RecencyList()
    private var parts = RecencyList(rings: Rank.Part.allCases.count)
    /// The sums over the entries of each part.
    private(set) var totals = PerPart { _ in EntryTotals() }
    /// Entries that were stored since the last eviction.
    private var new = SlotNotes()
    private var isOutOfOrder = false

    init(counting counter: AccessCounter) {
        self.counter = counter
    }

    var leastRecentlyUsed: Int? { all.oldest() }
    func usedAfter(_ slot: Int) -> Int? { all.newer(than: slot) }
    func stamp(of slot: Int) -> UInt64 { all.stamp(of: slot) }

    func first(of part: Rank.Part) -> Int? { parts.oldest(in: part.rawValue) }
    func next(after slot: Int) -> Int? { parts.newer(than: slot) }
    func turn(of slot: Int) -> UInt64 { parts.stamp(of: slot) }

    /// Adds an entry as the most recently used. O(1) amortized.
    mutating func append(_ slot: Int, _ entry: IndexEntry) {
        append(slot, entry, counter.next(at: entry.used))
    }

    /// The same for a past use, in chronological order or before `restore`. O(1) amortized.
    mutating func load(_ slot: Int, _ entry: IndexEntry, usedAt time: Timestamp) {
        append(slot, entry, counter.stamp(of: time))
        isOutOfOrder = true
    }

    private mutating func append(_ slot: Int, _ entry: IndexEntry, _ stamp: UInt64) {
        all.append(slot, stamp)
        parts.append(slot, stamp, to: entry.rank.part.rawValue)
        totals[entry.rank.part].add(entry)
        if entry.rank.part == .window { new.insert(slot) }
    }

    /// Sorts the entries by the times of their last use, and by file where they are equal. O(n log n) after `load`.
    mutating func restore(file: (Int) -> FileID) {
        guard isOutOfOrder else { return }
        all.sort(file: file)
        for part in Rank.Part.allCases { parts.sort(part.rawValue, file: file) }
        isOutOfOrder = false
    }

    /// Notes a use. O(1).
    mutating func touch(_ slot: Int, _ part: Rank.Part, at time: Timestamp) {
        let stamp = counter.next(at: time)
        all.move(slot, stamp)
        parts.move(slot, stamp, toEndOf: part.rawValue)
    }

    /// Notes a use by another process, which comes late: some entries may have been used after it. O(1).
    mutating func insert(_ slot: Int, _ part: Rank.Part, usedAt time: Timestamp) {
        let stamp = counter.stamp(of: time)
        all.insert(slot, stamp)
        parts.insert(slot, stamp, in: part.rawValue)
    }

    /// Notes that an entry has another size, or is in another part, at the end of it. O(1).
    mutating func replace(_ slot: Int, _ old: IndexEntry, with entry: IndexEntry) {
        totals[old.rank.part].remove(old)
        totals[entry.rank.part].add(entry)
        if old.rank.part != entry.rank.part {
            parts.move(slot, counter.next(), toEndOf: entry.rank.part.rawValue)
        }
    }

    mutating func remove(_ slot: Int, _ entry: IndexEntry) {
        all.remove(slot)
        parts.remove(slot)
        totals[entry.rank.part].remove(entry)
    }

    mutating func takeNew() -> [Int] { new.takeAll() }
}

/// A value for each part of `Rank`.
struct PerPart<Value: Sendable>: Sendable {
    private var values: (Value, Value, Value)

    init(_ value: (Rank.Part) -> Value) { values = (value(.window), value(.probation), value(.protected)) }

    subscript(part: Rank.Part) -> Value {
        get {
            switch part {
            case .window: values.0
            case .probation: values.1
            case .protected: values.2
            }
        }
        _modify {
            switch part {
            case .window: yield &values.0
            case .probation: yield &values.1
            case .protected: yield &values.2
            }
        }
    }
}
