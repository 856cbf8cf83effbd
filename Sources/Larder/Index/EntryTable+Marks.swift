import LarderFiles

/// Scopes that a caller expired. Look-ups respect a mark at once. In the background the mark is applied to the entries
/// slice by slice, their life slots are written, and the mark is then forgotten; entries whose slots could not be
/// written are noted one by one.
extension EntryTable {
    struct Ending: Sendable {
        fileprivate(set) var marks = ExpiryMarks()
        /// The lowest number of a mark since there were none. An ended life with a lower number is on disk or noted as
        /// unwritten. Unlike the numbers of the marks, it survives their merging.
        fileprivate var floor = UInt64.max
        /// Slots to which the marks have been applied.
        fileprivate var searched = 0
        /// The files of ended entries that could not be written or removed.
        fileprivate(set) var unwritten: [FileID: Key] = [:]

        /// True when no mark is left to apply. Look-ups need nothing else.
        var isEmpty: Bool { marks.isEmpty }

        fileprivate mutating func note(_ lowest: UInt64?) {
            floor = min(floor, lowest ?? .max)
            searched = 0
        }
    }

    /// A slice of the entries whose lives the marks have ended.
    struct Ended {
        /// Entries that are not kept beyond their expiry.
        var over: [IndexEntry] = []
        /// Entries whose life slots have to be written.
        var kept: [IndexEntry] = []
        /// The slots that the slice reached.
        fileprivate var searched = 0

        fileprivate mutating func add(_ entry: IndexEntry) {
            if entry.isAbsent || entry.keptUntil <= entry.life.expires {
                over.append(entry)
            } else {
                kept.append(entry)
            }
        }
    }

    var hasMarks: Bool { !ending.isEmpty }

    /// True while the ends of some lives may not be on disk.
    var hasUnwritten: Bool { !ending.isEmpty || !ending.unwritten.isEmpty }

    /// Ends the lives of the entries in `scope` that have not changed since. O(1).
    mutating func expire(_ scope: ClearScope, _ mark: ExpiryMarks.Mark) {
        if let namespace = scope.namespace, totals(of: namespace).count == 0 { return }
        ending.marks.add(mark, to: scope)
        ending.note(mark.number)
    }

    /// The same with marks from the files or journal lines of an earlier session.
    mutating func expire(_ marks: ExpiryMarks) {
        ending.marks.add(marks)
        ending.note(marks.lowestNumber)
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
            // Not only those with the number of a mark: a renewal that failed has another, and marks are merged.
            guard entry.life.isEnded, entry.change >= ending.floor, ending.marks.concern(entry) else { continue }
            ended.add(entry)
        }
        ended.searched = slots.upperBound
        ending.searched = slots.upperBound
        return ended
    }

    /// Notes that a slice of ended entries is on disk, except for some of them. Returns false when there are no more;
    /// the marks are then forgotten.
    mutating func noteWritten(_ slice: Ended, but unwritten: [IndexEntry]) -> Bool {
        for entry in slice.over + slice.kept { ending.unwritten[entry.file] = nil }
        for entry in unwritten { ending.unwritten[entry.file] = entry.key }
        // Marks or slots were added meanwhile.
        if ending.searched != slice.searched || slice.searched < entries.count { return true }
        ending = Ending(unwritten: ending.unwritten)
        return false
    }

    /// Returns the ended entries among these that are still to be written, and forgets the others: those that were
    /// renewed, replaced or removed meanwhile.
    mutating func unwritten(among files: [(file: FileID, key: Key)]) -> Ended {
        var ended = Ended()
        for (file, key) in files where ending.unwritten[file] != nil {
            if let entry = entry(key), entry.file == file, entry.life.isEnded {
                ended.add(entry)
            } else {
                ending.unwritten[file] = nil
            }
        }
        return ended
    }

    /// Notes the outcome of another attempt.
    mutating func noteRetried(_ ended: Ended, but unwritten: [IndexEntry]) {
        for entry in ended.over + ended.kept { ending.unwritten[entry.file] = nil }
        for entry in unwritten { ending.unwritten[entry.file] = entry.key }
    }
}

/// Copies.
extension EntryTable {
    /// Calls `body` with each entry in some slots; false past the last slot. O(limit).
    func forEachEntry(from start: Int, _ limit: Int, _ body: (_ slot: Int, IndexEntry) -> Void) -> Bool {
        guard start < entries.count else { return false }
        for slot in start..<min(start + limit, entries.count)
        where entries[slot].file != 0 && !isCleared(entries[slot]) {
            body(slot, entries[slot])
        }
        return true
    }

    /// The entry in a slot; nil for a vacant one.
    func entry(at slot: Int) -> IndexEntry? {
        guard slot < entries.count, entries[slot].file != 0, !isCleared(entries[slot]) else { return nil }
        return marked(entries[slot])
    }

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
