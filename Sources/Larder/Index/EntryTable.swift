import LarderFiles

/// The entries, or one shard of them: a pure value without file, clock or queue.
///
/// Entries are in slots of one array, found through `hashIndex`; a free slot has file number 0. A copy of `entries` is
/// a snapshot.
struct EntryTable: Sendable {
    typealias Totals = EntryTotals

    private(set) var entries: [IndexEntry] = []
    /// The last use that is saved on disk, slot by slot.
    private var savedUses: [Timestamp] = []
    /// Slots whose last use may be newer than the saved one, each once.
    private(set) var touched = SlotNotes()
    private(set) var free: [UInt32] = []
    private var hashIndex = HashIndex()
    private(set) var expiries = ExpiryQueue()
    /// The slots in the orders of eviction; kept from the first time that they are needed.
    var uses: UseOrder?
    /// True while the index is read from disk: nothing is due, and all reminders are made at the end.
    private(set) var isLoading = false

    private(set) var totals = Totals()
    /// The totals of each namespace that has entries.
    private(set) var namespaces: [Namespace: Totals] = [:]
    /// Their sum.
    private var inNamespaces = Totals()
    /// The cleared scopes: their entries count as removed, but keep their slots until they are taken out. The totals no
    /// longer include those of a cleared namespace, but still those of a cleared tag.
    private(set) var cleared = ClearMarks()
    /// The progress of the search for such entries.
    private var searched = 0
    /// Such entries that have already lost their slot.
    private(set) var evacuated: [IndexEntry] = []
    /// The scopes that a caller expired, and the progress of recording that entry by entry.
    var ending = Ending()

    var count: Int { totals.count }

    var savedTotals: SavedTotals { SavedTotals(whole: totals, namespaces: namespaces) }

    /// The totals of a namespace, or of the part without one. O(1).
    func totals(of namespace: Namespace) -> Totals {
        if !namespace.isNone { return namespaces[namespace] ?? Totals() }
        var own = totals
        own.add(inNamespaces, times: -1)
        return own
    }

    /// Slots in use, including those of cleared entries.
    private var slotsInUse: Int { entries.count - free.count }

    /// Returns the entry of a key, even an expired one. O(1).
    func entry(_ key: Key) -> IndexEntry? {
        liveSlot(key).map { marked(entries[$0]) }
    }

    /// Returns the file of a key's entry; 0 without one. Copies no entry. O(1).
    func file(_ key: Key) -> UInt64 { place(key)?.number ?? 0 }

    /// The same with its place; nil without an entry.
    func place(_ key: Key) -> FileID? { liveSlot(key).map { entries[$0].file } }

    /// The same with whether it is fresh; nil without an entry.
    func file(_ key: Key, at now: Timestamp) -> (id: FileID, isFresh: Bool)? {
        liveSlot(key).map { slot in
            let isFresh = ending.isEmpty ? entries[slot].isFresh(at: now) : marked(entries[slot]).isFresh(at: now)
            return (entries[slot].file, isFresh)
        }
    }

    /// Returns the entry of a key if a read may see it, and notes the use. O(1).
    mutating func use(_ key: Key, at now: Timestamp, sliding: Bool, orStale: Bool = false) -> IndexEntry? {
        guard let slot = markedSlot(key), case let isFresh = entries[slot].isFresh(at: now),
            isFresh || orStale && entries[slot].isUsable(at: now)
        else { return nil }
        if now > entries[slot].used { entries[slot].used = now }
        entries[slot].countHit()
        uses?.touch(slot, entries[slot].rank.part, at: now)
        if sliding, isFresh { entries[slot].life = entries[slot].life.renewed(at: now) }
        // A clean close saves an extended sliding life in full, so every use counts then.
        if now.millisecondsSince(savedUses[slot]) >= (sliding ? 1 : UseNotes.tolerance) { touched.insert(slot) }
        return entries[slot]
    }

    /// Inserts an entry and returns the replaced one. O(1) amortized, O(log n) for a life that ends before others.
    @discardableResult
    mutating func publish(_ entry: IndexEntry, for key: Key) -> IndexEntry? {
        if let slot = slot(key) {
            if !isCleared(entries[slot]) {
                if !ending.isEmpty { applyMarks(slot) }
                return replace(slot, with: entry)
            }
            evacuate(slot)
        }
        remind(insert(entry, key))
        return nil
    }

    /// The outcome of applying a record of an entry.
    enum Applied {
        case inserted
        /// It was known, perhaps in another place, which is dead.
        case known(dead: FileID?)
        case replaced(FileID)
        /// There is a newer entry.
        case older
    }

    /// Inserts an entry unless there is a newer one. The same value in two places is in the later one, and has the
    /// later life. O(1) amortized.
    mutating func apply(_ entry: IndexEntry, for key: Key) -> Applied {
        guard let slot = slot(key) else {
            remind(insert(entry, key))
            return .inserted
        }
        if isCleared(entries[slot]) {
            evacuate(slot)
            remind(insert(entry, key))
            return .inserted
        }
        if !ending.isEmpty { applyMarks(slot) }
        let known = entries[slot].file
        if known.number == entry.file.number {
            let old = entries[slot]
            entries[slot] = old.merged(with: entry)
            uses?.replace(slot, old, with: entries[slot])
            if entries[slot].keptUntil < old.keptUntil { remind(slot) }
            return .known(dead: known == entry.file ? nil : min(known, entry.file))
        }
        if known > entry.file { return .older }
        _ = replace(slot, with: entry)
        return .replaced(known)
    }

    /// Notes that the bytes of an entry are in a later place, unless it has another value by now.
    mutating func move(_ moved: IndexEntry, of key: Key) {
        guard let slot = liveSlot(key), entries[slot].file.number == moved.file.number else { return }
        entries[slot].file = max(entries[slot].file, moved.file)
    }

    /// The same for an entry of a group that is loaded from disk. If the table already has another entry of the key,
    /// keeps that and returns the file of this one: a damaged group may have an older entry. O(1) amortized, O(log n)
    /// for the reminder.
    mutating func add(_ entry: IndexEntry, for key: Key, at opening: Timestamp) -> FileID? {
        if let slot = slot(key) { return entries[slot].file == entry.file ? nil : entry.file }
        let slot = takeSlot(entry)
        hashIndex.insert(fingerprint: key.fingerprint, slot: slot)
        account(for: entry)
        uses?.load(slot, entry, usedAt: entry.lastUse(knownAt: opening))
        remind(slot)
        return nil
    }

    private mutating func replace(_ slot: Int, with entry: IndexEntry) -> IndexEntry {
        var old = entry
        swap(&entries[slot], &old)
        // To store a key again is a use.
        entries[slot].rank = old.rank.used
        savedUses[slot] = entry.used
        account(for: old, times: -1)
        account(for: entry)
        uses?.replace(slot, old, with: entries[slot])
        uses?.touch(slot, old.rank.part, at: entry.used)
        if entry.keptUntil < old.keptUntil { remind(slot) }
        return old
    }

    /// Inserts an entry whose key is not there; returns its slot.
    @discardableResult
    private mutating func insert(_ entry: IndexEntry, _ key: Key) -> Int {
        let slot = takeSlot(entry)
        hashIndex.insert(fingerprint: key.fingerprint, slot: slot)
        account(for: entry)
        uses?.append(slot, entry)
        return slot
    }

    /// Gives an entry another life. O(1), O(log n) when it ends earlier.
    mutating func setLife(_ life: Life, change: UInt64, _ update: Attachments.Update? = nil, for key: Key) {
        guard let slot = liveSlot(key) else { return }
        let old = entries[slot].keptUntil
        entries[slot].life = life
        entries[slot].change = change
        if let update { entries[slot].attachments = entries[slot].attachments(after: update) }
        if entries[slot].keptUntil < old { remind(slot) }
    }

    /// Notes a use that is already saved on disk: a hit, or a rank that an evictor has given. O(1).
    mutating func setUse(at time: Timestamp, _ rank: Rank?, expires: Timestamp, for key: Key) {
        guard let slot = liveSlot(key) else { return }
        let old = entries[slot]
        let isNew = time > old.used
        entries[slot].used = max(old.used, time)
        if let rank {
            // Hits since then stay.
            entries[slot].rank = Rank(rank.part, hits: time < old.used ? old.rank.hits : rank.hits)
        } else if isNew {
            entries[slot].countHit()
        }
        uses?.replace(slot, old, with: entries[slot])
        if isNew { uses?.insert(slot, entries[slot].rank.part, usedAt: time) }
        savedUses[slot] = max(savedUses[slot], time)
        if entries[slot].life.ttl != Life.unlimited {
            entries[slot].life.expires = max(entries[slot].life.expires, expires)
        }
    }

    /// Gives the entry in a slot another rank, at the end of its part. O(1).
    mutating func setRank(_ rank: Rank, at slot: Int) -> IndexEntry {
        let old = entries[slot]
        entries[slot].rank = rank
        uses?.replace(slot, old, with: entries[slot])
        return entries[slot]
    }

    /// Removes an entry, if its file has a lower number. O(1).
    @discardableResult
    mutating func remove(_ key: Key, below number: UInt64 = .max) -> IndexEntry? {
        guard let slot = markedSlot(key), entries[slot].file < number else { return nil }
        return vacate(slot)
    }

    /// Removes up to `limit` entries that have expired at `now`. O(log n) for each.
    ///
    /// Entries with a `spared` file stay: their expiry could not be checked in the file. So do those that may not be
    /// removed now.
    mutating func removeExpired(
        at now: Timestamp, limit: Int, sparing spared: Set<FileID> = [],
        where mayRemove: (IndexEntry) -> Bool = { _ in true }
    ) -> [IndexEntry] {
        var victims: [IndexEntry] = []
        var kept: [Int] = []
        defer { for slot in kept { expiries.insert(slot, at: entries[slot].keptUntil) } }
        while victims.count < limit, let slot = expiries.popDue(at: now) {
            guard entries[slot].file != 0, !entries[slot].life.isForever else { continue }
            if !entries[slot].isOver(at: now) {
                remind(slot)
            } else if isCleared(entries[slot]) {
                evacuate(slot)
            } else if spared.contains(entries[slot].file) || !mayRemove(entries[slot]) {
                kept.append(slot)
            } else {
                victims.append(vacate(slot))
            }
        }
        return victims
    }

    /// Marks every entry in `scope`, all of which have file numbers below `number`, as cleared. Returns the totals of a
    /// namespace; the entries of a tag are counted until they are taken out. O(1).
    mutating func clear(_ scope: ClearScope, below number: UInt64) -> Totals {
        guard let namespace = scope.namespace, case let gone = totals(of: namespace), gone.count > 0 else {
            return Totals()
        }
        cleared.add(scope, below: number)
        searched = 0
        guard case .namespace = scope else { return Totals() }
        if namespaces.removeValue(forKey: namespace) != nil { inNamespaces.add(gone, times: -1) }
        totals.add(gone, times: -1)
        return gone
    }

    /// Takes out cleared entries after looking at up to `limit` slots. Returns nil when there are no more.
    mutating func takeCleared(limit: Int) -> [IndexEntry]? {
        if !hasCleared { return nil }
        for slot in entries[searched...].indices.prefix(limit) {
            if entries[slot].file != 0, isCleared(entries[slot]) { evacuate(slot) }
            searched = slot + 1
        }
        if searched == entries.count { cleared.removeAll() }
        defer { evacuated = [] }
        return evacuated
    }

    /// True when `takeCleared` may find entries.
    var hasCleared: Bool { !cleared.isEmpty || !evacuated.isEmpty }

    func isCleared(_ entry: IndexEntry) -> Bool { !cleared.isEmpty && cleared.cover(entry) }

    /// True when the entry of a key has a tag, even if it is cleared.
    func isTagged(_ key: Key, _ tag: Key) -> Bool { slot(key).map { entries[$0].tags.contains(tag) } ?? false }

    /// True for entries that no total counts.
    func isUncounted(_ entry: IndexEntry) -> Bool {
        !cleared.isEmpty && cleared.number(for: entry.namespace) > entry.file
    }

    /// True when a search for expired entries may find some. O(1).
    func mayHaveExpired(at now: Timestamp) -> Bool {
        expiries.reminders.first.map { $0.at <= now } ?? false
    }

    mutating func beginLoading() {
        isLoading = true
    }

    /// Removes the `cleared` entries and those that have expired at `now`, including those that `marks` ended, and
    /// creates the reminders. Returns both groups. O(n), O(n log n) when lives end in no order.
    mutating func finishLoading(at now: Timestamp, cleared: ClearMarks, marks: ExpiryMarks) -> (
        expired: [IndexEntry], cleared: [IndexEntry]
    ) {
        isLoading = false
        defer { rebuildReminders() }
        if !marks.isEmpty {
            for slot in entries.indices where entries[slot].file != 0 {
                if let ended = marks.ending(entries[slot]) { entries[slot] = ended }
            }
        }
        guard entries.contains(where: { $0.file != 0 && ($0.isOver(at: now) || cleared.cover($0)) }) else {
            return ([], [])
        }
        var expired: [IndexEntry] = []
        var dead: [IndexEntry] = []
        var kept: [IndexEntry] = []
        for entry in entries where entry.file != 0 {
            if cleared.cover(entry) {
                dead.append(entry)
            } else if entry.isOver(at: now) {
                expired.append(entry)
            } else {
                kept.append(entry)
            }
        }
        // Rebuilt without them: quicker than removing them one by one, and smaller.
        self = EntryTable()
        for entry in kept { insert(entry, entry.key) }
        return (expired, dead)
    }

    /// Returns the uses that are due to be saved, and counts them as saved; the others stay noted. O(notes).
    mutating func takeUses(_ due: UseNotes) -> [UseNotes.Use] {
        var uses: [UseNotes.Use] = []
        for slot in touched.takeAll() where entries[slot].file != 0 && !isCleared(entries[slot]) {
            applyMarks(slot)
            switch due.decision(on: entries[slot], saved: savedUses[slot]) {
            case .write(let use):
                savedUses[slot] = entries[slot].used
                uses.append(use)
            case .keep: touched.insert(slot)
            case .drop: break
            }
        }
        return uses
    }

    /// True when other processes must learn soon that a life slides: the last use is in another tenth of it than the
    /// saved one.
    func hasSlid(_ key: Key) -> Bool {
        slot(key).map { UseNotes.isSlotBehind(entries[$0], saved: savedUses[$0]) } ?? false
    }

    func slot(_ key: Key) -> Int? {
        hashIndex.slot(fingerprint: key.fingerprint) { entries[$0].isNamed(key) }
    }

    private func liveSlot(_ key: Key) -> Int? {
        slot(key).flatMap { isCleared(entries[$0]) ? nil : $0 }
    }

    /// The same, after applying the marks to the entry.
    private mutating func markedSlot(_ key: Key) -> Int? {
        guard let slot = liveSlot(key) else { return nil }
        if !ending.isEmpty { applyMarks(slot) }
        return slot
    }

    /// Applies the marks to the entry in a slot.
    mutating func applyMarks(_ slot: Int) {
        guard !ending.isEmpty, let ended = ending.marks.ending(entries[slot]) else { return }
        entries[slot] = ended
        remind(slot)
    }

    private mutating func account(for entry: IndexEntry, times factor: Int = 1) {
        var one = Totals()
        one.add(entry)
        totals.add(one, times: factor)
        guard let namespace = entry.attachments?.traits.namespace, namespace != .none else { return }
        inNamespaces.add(one, times: factor)
        namespaces[namespace, default: Totals()].add(one, times: factor)
        if namespaces[namespace] == Totals() { namespaces[namespace] = nil }
    }

    /// Takes out a cleared entry, and keeps it until `takeCleared` returns it.
    private mutating func evacuate(_ slot: Int) {
        evacuated.append(entries[slot])
        if !isUncounted(entries[slot]) { account(for: entries[slot], times: -1) }
        free(slot)
    }

    private mutating func takeSlot(_ entry: IndexEntry) -> Int {
        if let slot = free.popLast() {
            entries[Int(slot)] = entry
            savedUses[Int(slot)] = entry.used
            return Int(slot)
        }
        if entries.count == entries.capacity {
            // Growth by half, not by doubling, bounds the memory per entry.
            entries.reserveCapacity(entries.count + entries.count / 2 + 4)
            savedUses.reserveCapacity(entries.capacity)
        }
        entries.append(entry)
        savedUses.append(entry.used)
        return entries.count - 1
    }

    private mutating func vacate(_ slot: Int) -> IndexEntry {
        let entry = entries[slot]
        account(for: entry, times: -1)
        free(slot)
        return entry
    }

    private mutating func free(_ slot: Int) {
        hashIndex.remove(slot)
        uses?.remove(slot, entries[slot])
        entries[slot] = Self.vacant
        free.append(UInt32(slot))
    }

    private mutating func remind(_ slot: Int) {
        if isLoading || entries[slot].life.isForever { return }
        expiries.insert(slot, at: entries[slot].keptUntil)
        // Slots, not entries: cleared entries keep their reminders until they are taken out.
        if expiries.reminders.count > 2 * slotsInUse + 64 { rebuildReminders() }
    }

    private mutating func rebuildReminders() {
        var reminders: [ExpiryQueue.Reminder] = []
        reminders.reserveCapacity(count)
        for slot in entries.indices where entries[slot].file != 0 && !entries[slot].life.isForever {
            reminders.append(ExpiryQueue.Reminder(at: entries[slot].keptUntil, slot: UInt32(slot)))
        }
        expiries.rebuild(reminders)
    }

    private static let vacant = IndexEntry(
        keyText: "", file: FileID(0), change: 0, stored: Timestamp(milliseconds: 0), life: .forever,
        used: Timestamp(milliseconds: 0), size: 0, checksum: 0)
}
