import LarderFiles

/// The dead files of a shard that this process has still to delete.
///
/// While another process may have an older file of a key, the last one must not be the first to go: if the index were
/// lost, the older one would be taken for the value. So it is *set aside*: a name says that all files of its key up to
/// this one are dead, and it is deleted when nobody has an older one.
struct Debts: Sendable {
    /// A dead file; with the hash of its key, so that removing the key finds it.
    struct File: Hashable, Sendable {
        let file: FileID
        let hash: UInt64
        /// Set if it was the last one of its key. Otherwise a later one hides the older ones.
        var last: Last?

        var isLast: Bool { last != nil }
        /// Nil when the key is not known.
        var keyHash: UInt64? { hash == 0 ? nil : hash }
        /// The shard of its key.
        var shard: Int { Key.shard(ofHash: hash) }

        static func == (left: File, right: File) -> Bool { left.file == right.file && left.hash == right.hash }

        func hash(into hasher: inout Hasher) { hasher.combine(file) }

        /// The last file of a key.
        static func last(_ file: FileID, of key: Key) -> File {
            File(file: file, hash: key.hash, last: Last(key))
        }
    }

    /// One reference: most files have none.
    final class Last: Sendable {
        /// Nil where only the file tells it.
        let key: Key?

        init(_ key: Key?) { self.key = key }

        static let ofUnknown = Last(nil)
    }

    /// Those to be deleted or set aside, in this order.
    private(set) var files: [File] = []
    /// Those that are set aside, by the numbers that they had.
    private(set) var aside: [File] = []
    /// The lowest number of `files`; 0: there are none.
    private(set) var lowest: UInt64 = 0

    var count: Int { files.count }
    var isEmpty: Bool { files.isEmpty && aside.isEmpty }

    mutating func add(_ file: File) {
        files.append(file)
        lowest = lowest == 0 ? file.file.number : min(lowest, file.file.number)
    }

    mutating func add(_ others: Debts) {
        for file in others.files { add(file) }
        aside += others.aside
    }

    /// The files of a key, the oldest first. O(files).
    func files(of key: Key) -> [File] {
        files.isEmpty ? [] : files.filter { $0.hash == key.hash }
    }

    /// Forgets files that are deleted, or used after all. O(files).
    mutating func removeAll(where isGone: (File) -> Bool) {
        files.removeAll(where: isGone)
        findLowest()
    }

    /// Forgets files that are deleted or, those in `hidden`, set aside; most of the time the first ones. O(files).
    mutating func settle(_ paid: [File], hiding hidden: [File] = []) {
        aside += hidden
        if files.isEmpty || paid.isEmpty { return }
        // Without hashing.
        if files.starts(with: paid) {
            files.removeFirst(paid.count)
            return findLowest()
        }
        let paid = Set(paid)
        removeAll { paid.contains($0) }
    }

    /// Forgets files that were set aside, and are deleted. O(files).
    mutating func forgetAside(where isGone: (File) -> Bool) {
        aside.removeAll(where: isGone)
    }

    private mutating func findLowest() {
        lowest = files.lazy.map(\.file.number).min() ?? 0
    }
}

/// The word in which a process notes for the others the lowest number among its debts of a shard.
struct DebtNote: Sendable {
    let words: MappedWords
    let position: Int

    func note(_ lowest: UInt64) { words.store(lowest, at: position) }
}
