import LarderFiles

/// Scopes that a caller expired. Look-ups respect a mark at once. In the background the mark is applied to the entries
/// slice by slice, their life slots are written, and the mark is then forgotten.
extension EntryTable {
    struct Ending: Sendable {
        fileprivate(set) var marks = ExpiryMarks()
        /// Slots to which the marks have been applied.
        fileprivate var searched = 0
        /// Some entry could not be written: the marks stay and are applied again.
        fileprivate var isIncomplete = false

        var isEmpty: Bool { marks.isEmpty }
    }

    /// A slice of the entries whose lives the marks have ended.
    struct Ended {
        /// Entries that are not kept beyond their expiry.
        var over: [IndexEntry] = []
        /// Entries whose life slots have to be written.
        var kept: [IndexEntry] = []
        /// The slots that the slice reached.
        fileprivate var searched = 0
    }

    var hasMarks: Bool { !ending.isEmpty }

    /// Ends the lives of the entries in `scope` that have not changed since. O(1).
    mutating func expire(_ scope: ClearScope, _ mark: ExpiryMarks.Mark) {
        if let namespace = scope.namespace, totals(of: namespace).count == 0 { return }
        ending.marks.add(mark, to: scope)
        ending.searched = 0
    }

    /// The same with marks from the files or journal lines of an earlier session.
    mutating func expire(_ marks: ExpiryMarks) {
        ending.marks.add(marks)
        ending.searched = 0
    }

    /// The entry with its life shortened by the marks.
    func marked(_ entry: IndexEntry) -> IndexEntry {
        ending.isEmpty ? entry : ending.marks.ending(entry) ?? entry
    }

    /// Applies the marks to up to `limit` more slots. Returns the entries that they have ended.
    mutating func applyMarks(limit: Int) -> Ended {
        var ended = Ended()
        let slots = min(ending.searched, entries.count)..<min(ending.searched + limit, entries.count)
        for slot in slots where entries[slot].file != 0 && !isCleared(entries[slot]) {
            applyMarks(slot)
            let entry = entries[slot]
            guard ending.marks.haveEnded(entry) else { continue }
            if entry.isAbsent || entry.keptUntil <= entry.life.expires {
                ended.over.append(entry)
            } else {
                ended.kept.append(entry)
            }
        }
        ended.searched = slots.upperBound
        ending.searched = slots.upperBound
        return ended
    }

    /// Notes that a slice of ended entries is on disk. Returns false when there are no more; the marks are then
    /// forgotten, unless something could not be written.
    mutating func noteWritten(_ slice: Ended, isComplete: Bool) -> Bool {
        if !isComplete { ending.isIncomplete = true }
        // Marks or slots were added meanwhile.
        if ending.searched != slice.searched || slice.searched < entries.count { return true }
        if ending.isIncomplete {
            ending.searched = 0
            ending.isIncomplete = false
        } else {
            ending = Ending()
        }
        return false
    }
}

/// Copies.
extension EntryTable {
    /// Copies the entries in some slots; nil past the last slot. O(limit).
    func slice(from start: Int, _ limit: Int) -> [IndexEntry]? {
        guard start < entries.count else { return nil }
        let slots = entries[start..<min(start + limit, entries.count)].filter { $0.file != 0 && !isCleared($0) }
        return ending.isEmpty ? slots : slots.map(marked)
    }

    /// A copy of the entries, including vacant slots. O(1), O(n) while something is being cleared or expired.
    var snapshot: [IndexEntry] {
        let live = cleared.isEmpty ? entries : entries.filter { !isCleared($0) }
        return ending.isEmpty ? live : live.map(marked)
    }
}
