import LarderFiles

/// Changes that are committed together: their lines, each after its line feed.
///
/// All changes are committed by `CommitQueue.commit`: it appends the lines, publishes the length of the journal, and then
/// the changes in the index. What happens to files before and after, and what a process leaves that is killed in
/// between:
///
/// | Change | Before the line | After it | Killed before the line | Killed after it |
/// |---|---|---|---|---|
/// | set | its file is written, under its number | the older file is owed | a file that no line mentions: adopted if it is whole, unless others have seen that it was not there | the older file, which the number of the newer one covers |
/// | renewed, ended | the slot of the file, if the life gets shorter | the slot, if it gets longer | the shorter life counts if the index is lost | the shorter life counts if the index is lost |
/// | used | the slot, if a sliding life is far ahead of it | nothing | the earlier life, or the later one | the earlier life if the index is lost |
/// | removed | nothing; a tombstone without its check, if files may be unknown | the check of the tombstone; older files are deleted, then the last one, or it is set aside | nothing has changed | dead files, deleted by those who clean |
/// | cleared, expired | a tombstone without its check | its check; the files are owed, the slots are written | nothing has changed | as removed |
/// | everything cleared | the directory of the entries is renamed into the trash | the trash is emptied | the clear counts once both directories are renamed | the trash |
/// | swept, evicted, lost | nothing | the files are owed, or deleted | nothing has changed | as removed |
/// | moved | a copy, which is synced | the old place is owed | a copy that no line mentions: it has the number of the value | the old place, which the later one covers |
///
/// Owed files are deleted later, the oldest first, and the process notes the lowest in the page (`Debts`).
struct Changes: ~Copyable {
    private(set) var lines: RecordPrinter
    private(set) var count = 0
    /// The highest number that was taken for them.
    private(set) var number: UInt64 = 0
    /// Each ends a value or a life. On a full disk the journal has some room for these.
    private(set) var areRemovals = true

    init(reserving bytes: Int = 256) {
        lines = RecordPrinter(reserving: bytes)
    }

    init(_ record: Record) {
        self.init()
        append(record)
    }

    /// The removal of each entry. Its file and all older files of the key are then dead.
    init(removing entries: [IndexEntry]) {
        self.init(reserving: entries.count * 96)
        for entry in entries { append(.remove(key: entry.key, number: entry.file.number + 1)) }
    }

    mutating func append(_ record: Record) {
        JournalFormat.append(record, to: &lines)
        count += 1
        number = max(number, record.highestNumber)
        areRemovals = areRemovals && record.isRemoval
    }

    /// How to handle changes whose lines cannot be written.
    enum Fallback {
        /// They fail.
        case none
        /// They are published all the same: the files tell them, too, and the lines only save the next opening work.
        case publishing
        /// They are published if nobody else is there, after the files are deleted: these tell enough to a process that
        /// opens the directory. Others learn of them by the lines.
        case publishingAlone
    }
}
