import LarderFiles

/// The list of entries, or one shard of it: a pure value that touches no file, no clock and no queue.
///
/// Rows stand in slots of one array, found through `table`; a free slot has file number 0. A copy of `rows` is a
/// snapshot.
struct Manifest: Sendable {
    private(set) var rows: [Row] = []
    /// The use that the disk knows of, slot by slot.
    private var savedUses: [Timestamp] = []
    /// Slots whose use may be newer than the disk knows, each once.
    private(set) var touched = SlotNotes()
    private(set) var free: [UInt32] = []
    private var table = KeyTable()
    private(set) var expiries = ExpiryQueue()
    /// The slots by last use; kept from the first time that somebody has to know.
    var uses: LRUList?
    /// While the index is read from disk nothing is due; the reminders are made in one go at the end.
    private var isLoading = false

    private(set) var totals = Totals()
    /// Those of each namespace that has entries.
    private(set) var namespaces: [Namespace: Totals] = [:]
    /// What was cleared: rows of it are none any more, and wait in their slots to be taken out. Those of a namespace do
    /// not count in the totals any more; those of a tag do.
    private var cleared = ClearMarks()
    /// How far the search for such rows has come.
    private var searched = 0
    /// Such rows that have lost their slot already.
    private(set) var evacuated: [Row] = []

    var count: Int { totals.count }

    /// Slots in use, those of cleared rows included.
    private var slotsInUse: Int { rows.count - free.count }

    /// Returns the row of a key, expired ones too. O(1).
    func row(_ key: Key) -> Row? {
        liveSlot(key).map { rows[$0] }
    }

    /// Returns the row of a key when a read may see it, and notes the use. O(1).
    mutating func use(_ key: Key, at now: Timestamp, sliding: Bool, staleToo: Bool = false) -> Row? {
        guard let slot = liveSlot(key), case let isFresh = rows[slot].isFresh(at: now),
            isFresh || staleToo && rows[slot].isUsable(at: now)
        else { return nil }
        if now > rows[slot].used { rows[slot].used = now }
        uses?.touch(slot, at: now)
        if sliding, isFresh { rows[slot].life = rows[slot].life.renewed(at: now) }
        // A life that slid has to reach the disk in full at a clean close, so there each use counts.
        if now.millisecondsSince(savedUses[slot]) >= (sliding ? 1 : UseNotes.tolerance) { touched.insert(slot) }
        return rows[slot]
    }

    /// Puts a row in and returns the one that it replaces. O(1) amortised, O(log n) for a life that ends before others.
    @discardableResult
    mutating func publish(_ row: Row, for key: Key) -> Row? {
        if let slot = slot(key) {
            if !isCleared(rows[slot]) { return replace(slot, with: row) }
            evacuate(slot)
        }
        remind(insert(row, key))
        return nil
    }

    /// The same while the index is read, unless there is a newer row. Returns the file that loses, if it is another.
    /// O(1) amortised.
    mutating func load(_ row: Row, for key: Key) -> UInt64? {
        guard let slot = slot(key) else {
            insert(row, key)
            return nil
        }
        let known = rows[slot].file
        if known <= row.file { _ = replace(slot, with: row) }
        return known == row.file ? nil : min(known, row.file)
    }

    private mutating func replace(_ slot: Int, with row: Row) -> Row {
        var old = row
        swap(&rows[slot], &old)
        savedUses[slot] = row.used
        account(for: old, times: -1)
        account(for: row)
        uses?.touch(slot, at: row.used)
        if row.keptUntil < old.keptUntil { remind(slot) }
        return old
    }

    /// Puts a row in whose key is not there; returns its slot.
    @discardableResult
    private mutating func insert(_ row: Row, _ key: Key) -> Int {
        let slot = takeSlot(row)
        table.insert(tag: key.tag, slot: slot)
        account(for: row)
        uses?.append(slot, at: row.used)
        return slot
    }

    /// Gives an entry another life. O(1), O(log n) when it ends earlier.
    mutating func setLife(_ life: Life, change: UInt64, _ update: Attachments.Update? = nil, for key: Key) {
        guard let slot = liveSlot(key) else { return }
        let old = rows[slot].keptUntil
        rows[slot].life = life
        rows[slot].change = change
        if let update { rows[slot].attachments = rows[slot].attachments(after: update) }
        if rows[slot].keptUntil < old { remind(slot) }
    }

    /// Notes a use that the disk already knows of. O(1).
    mutating func setUse(at time: Timestamp, expires: Timestamp, for key: Key) {
        guard let slot = liveSlot(key) else { return }
        rows[slot].used = max(rows[slot].used, time)
        savedUses[slot] = rows[slot].used
        if rows[slot].life.ttl != Life.unlimited { rows[slot].life.expires = max(rows[slot].life.expires, expires) }
    }

    /// Takes a row out. O(1).
    @discardableResult
    mutating func remove(_ key: Key) -> Row? {
        guard let slot = liveSlot(key) else { return nil }
        return vacate(slot)
    }

    /// Takes out up to `limit` rows that have expired at `now`. O(log n) for each.
    ///
    /// Rows whose file is `spared` stay: nobody could ask the file whether they really have expired.
    mutating func purge(at now: Timestamp, limit: Int, sparing spared: Set<UInt64> = []) -> [Row] {
        var victims: [Row] = []
        var kept: [Int] = []
        defer { for slot in kept { expiries.insert(slot, at: rows[slot].keptUntil) } }
        while victims.count < limit, let slot = expiries.popDue(at: now) {
            guard rows[slot].file != 0, !rows[slot].life.isForever else { continue }
            if !rows[slot].isOver(at: now) {
                remind(slot)
            } else if isCleared(rows[slot]) {
                evacuate(slot)
            } else if spared.contains(rows[slot].file) {
                kept.append(slot)
            } else {
                victims.append(vacate(slot))
            }
        }
        return victims
    }

    /// Makes the rows of a namespace or a tag none, all of which have lower file numbers. Returns what those of a
    /// namespace were; those of a tag go on being counted until they are taken out. O(1).
    mutating func clear(_ scope: ClearScope, below number: UInt64) -> Totals {
        guard let space = scope.space, space == .none ? count > 0 : namespaces[space] != nil else { return Totals() }
        cleared.add(scope, below: number)
        searched = 0
        guard case .namespace = scope, let gone = namespaces.removeValue(forKey: space) else { return Totals() }
        totals.add(gone, times: -1)
        return gone
    }

    /// Takes out rows that are none any more, after looking at up to `limit` slots. Returns nil when there are no more.
    mutating func takeCleared(limit: Int) -> [Row]? {
        if !hasCleared { return nil }
        for slot in rows[searched...].indices.prefix(limit) {
            if rows[slot].file != 0, isCleared(rows[slot]) { evacuate(slot) }
            searched = slot + 1
        }
        if searched == rows.count { cleared.removeAll() }
        defer { evacuated = [] }
        return evacuated
    }

    /// True when there may be rows for `takeCleared`.
    var hasCleared: Bool { !cleared.isEmpty || !evacuated.isEmpty }

    func isCleared(_ row: Row) -> Bool { !cleared.isEmpty && cleared.cover(row) }

    /// True when the row of a key has a tag, cleared or not.
    func isTagged(_ key: Key, _ tag: Key) -> Bool { slot(key).map { rows[$0].tags.contains(tag) } ?? false }

    /// True for rows that are in no total.
    func isUncounted(_ row: Row) -> Bool { !cleared.isEmpty && cleared.number(for: row.namespace) > row.file }

    /// Copies the rows in some slots; nil when there are no more slots. O(limit).
    func slice(from start: Int, _ limit: Int) -> [Row]? {
        guard start < rows.count else { return nil }
        return rows[start..<min(start + limit, rows.count)].filter { $0.file != 0 && !isCleared($0) }
    }

    /// A copy of the rows, vacant slots among them. O(1), O(n) while something is being cleared.
    var snapshot: [Row] {
        cleared.isEmpty ? rows : rows.filter { !isCleared($0) }
    }

    /// True when a look at what has expired may find something. O(1).
    func mayHaveExpired(at now: Timestamp) -> Bool {
        expiries.reminders.first.map { $0.at <= now } ?? false
    }

    mutating func beginLoading() {
        isLoading = true
    }

    /// Takes out what was `cleared` and what has expired at `now`, and makes the reminders. Returns both. O(n), O(n log
    /// n) when lives end in no order.
    mutating func finishLoading(at now: Timestamp, cleared: ClearMarks) -> (expired: [Row], cleared: [Row]) {
        isLoading = false
        defer { rebuildReminders() }
        guard rows.contains(where: { $0.file != 0 && ($0.isOver(at: now) || cleared.cover($0)) }) else {
            return ([], [])
        }
        var expired: [Row] = []
        var dead: [Row] = []
        var kept: [Row] = []
        for row in rows where row.file != 0 {
            if cleared.cover(row) {
                dead.append(row)
            } else if row.isOver(at: now) {
                expired.append(row)
            } else {
                kept.append(row)
            }
        }
        // Made anew without them: quicker than taking them out one by one, and smaller.
        self = Manifest()
        for row in kept { insert(row, row.name) }
        return (expired, dead)
    }

    /// Returns the uses that are due to be written down, and counts them as saved; the others stay noted. O(notes).
    mutating func takeUses(_ due: UseNotes) -> [UseNotes.Use] {
        var uses: [UseNotes.Use] = []
        for slot in touched.takeAll() where rows[slot].file != 0 && !isCleared(rows[slot]) {
            switch due.decision(on: rows[slot], saved: savedUses[slot]) {
            case .write(let use):
                savedUses[slot] = rows[slot].used
                uses.append(use)
            case .keep: touched.insert(slot)
            case .drop: break
            }
        }
        return uses
    }

    func slot(_ key: Key) -> Int? {
        table.slot(tag: key.tag) { rows[$0].isNamed(key) }
    }

    private func liveSlot(_ key: Key) -> Int? {
        slot(key).flatMap { isCleared(rows[$0]) ? nil : $0 }
    }

    private mutating func account(for row: Row, times factor: Int = 1) {
        var one = Totals()
        one.add(row)
        totals.add(one, times: factor)
        guard let namespace = row.attachments?.traits.namespace, namespace != .none else { return }
        namespaces[namespace, default: Totals()].add(one, times: factor)
        if namespaces[namespace] == Totals() { namespaces[namespace] = nil }
    }

    /// Takes a row out that is none any more, and keeps it until somebody asks for its file.
    private mutating func evacuate(_ slot: Int) {
        evacuated.append(rows[slot])
        if !isUncounted(rows[slot]) { account(for: rows[slot], times: -1) }
        free(slot)
    }

    private mutating func takeSlot(_ row: Row) -> Int {
        if let slot = free.popLast() {
            rows[Int(slot)] = row
            savedUses[Int(slot)] = row.used
            return Int(slot)
        }
        if rows.count == rows.capacity {
            // By half, not by two: it bounds the memory per entry.
            rows.reserveCapacity(rows.count + rows.count / 2 + 4)
            savedUses.reserveCapacity(rows.capacity)
        }
        rows.append(row)
        savedUses.append(row.used)
        return rows.count - 1
    }

    private mutating func vacate(_ slot: Int) -> Row {
        let row = rows[slot]
        account(for: row, times: -1)
        free(slot)
        return row
    }

    private mutating func free(_ slot: Int) {
        table.remove(slot)
        rows[slot] = Self.vacant
        free.append(UInt32(slot))
        uses?.remove(slot)
    }

    private mutating func remind(_ slot: Int) {
        if isLoading || rows[slot].life.isForever { return }
        expiries.insert(slot, at: rows[slot].keptUntil)
        // Slots, not entries: those of cleared rows keep their reminders until they are taken out.
        if expiries.reminders.count > 2 * slotsInUse + 64 { rebuildReminders() }
    }

    private mutating func rebuildReminders() {
        var reminders: [ExpiryQueue.Reminder] = []
        reminders.reserveCapacity(count)
        for slot in rows.indices where rows[slot].file != 0 && !rows[slot].life.isForever {
            reminders.append(ExpiryQueue.Reminder(at: rows[slot].keptUntil, slot: UInt32(slot)))
        }
        expiries.rebuild(reminders)
    }

    private static let vacant = Row(
        key: "", file: 0, change: 0, stored: Timestamp(milliseconds: 0), life: .forever,
        used: Timestamp(milliseconds: 0), size: 0, checksum: 0)
}
