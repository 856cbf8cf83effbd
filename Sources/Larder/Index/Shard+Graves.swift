/// Changes that another process may have overtaken.
extension Shard {
    /// True when another process has already replaced, removed or expired an entry that would be published now.
    func isOvertaken(_ entry: IndexEntry, _ key: Key) -> Bool {
        if table.file(key) > entry.file || graves.cover(entry, key) { return true }
        // A life that had ended before, on another machine, is no work of another process.
        return !entry.life.isEnded && graves.marked(entry).life.isEnded
    }

    /// Returns an entry of this process that is no longer to be published: another one has already replaced, removed or
    /// expired it. Nil when it is.
    mutating func overtaken(_ entry: IndexEntry, _ key: Key) -> IndexEntry? {
        if table.file(key) > entry.file || graves.cover(entry, key) {
            removeOlder(entry, key)
            markObsolete(entry.file, of: key, isLast: table.file(key) == 0)
            return entry
        }
        guard !entry.life.isEnded, !graves.marks.isEmpty, case let ended = graves.marked(entry), ended.life.isEnded
        else {
            return nil
        }
        if let old = table.publish(ended, for: key) { markObsolete(old.file, of: key) }
        return ended
    }

    /// Removes what a cleared entry has replaced all the same, and its file first: once the newer one is gone, a lost
    /// index would bring the older back.
    mutating func removeOlder(_ entry: IndexEntry, _ key: Key) {
        if let old = table.entry(key), old.file < entry.file { removeWithFile(old) }
    }

    /// Removes the entries in a scope that are older than its clear. Unlike those of one process, some may be newer.
    /// Returns their totals. O(n).
    ///
    /// `deletesFiles`: their files are obsolete. Otherwise the process that clears deletes them.
    mutating func clearOlder(_ scope: ClearScope, below number: UInt64, deletesFiles: Bool) -> EntryTotals {
        graves.add(scope, below: number)
        var marks = ClearMarks()
        marks.add(scope, below: number)
        var gone = EntryTotals()
        for entry in table.entries where entry.file != 0 && marks.cover(entry) && !table.isCleared(entry) {
            gone.add(entry)
            // Not below the number of the clear: a value without the tag may come that is older than that.
            if deletesFiles { removeWithFile(entry) } else { remove(entry.key, below: entry.file.number + 1) }
        }
        return gone
    }

    /// Gives an entry another life, unless another value has replaced it, or another process has ended its life later.
    mutating func setLife(
        _ life: Life, change: UInt64, _ update: Attachments.Update?, of entry: IndexEntry, _ key: Key
    ) {
        if isReplaced(entry, key) { return }
        if let current = table.entry(key), current.change > change { return }
        table.setLife(life, change: change, update, for: key)
    }

    /// True when there is a removal that a change may still come after.
    var hasGraves: Bool { !graves.isEmpty }

    /// True when another process has replaced or removed an entry.
    func isReplaced(_ entry: IndexEntry, _ key: Key) -> Bool { table.file(key) != entry.file.number }
}
