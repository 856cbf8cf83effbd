/// The work that makes entries and files agree after an unclean close.
///
/// Until it has finished, files decide. A file that no line of the index mentions is a *suspect*: it may hold a newer
/// value than the index knows. Suspects are read newest first, so an entry can be trusted once its number is above
/// those of all unread suspects.
///
/// It concerns only numbers from earlier sessions.
struct Reconciliation: Sendable {
    typealias Entry = (key: Key, file: FileID)
    typealias Tombstone = (number: UInt64, removal: EntryFile.Removal)

    /// Threads take numbers and write lines in no particular order, but a suspect this far below the last line does not
    /// come from the killed session, and no number this far above it was taken.
    static let concurrency: UInt64 = 1 << 10
    /// After a kill, an opening looks for files up to this far above the last number that a line records, or the last
    /// file found. Each change under way holds one number, and there are at most as many changes as stripes; a number
    /// beyond is taken only once the header of the journal asks for a listing.
    static let reach: UInt64 = 256
    /// The number of suspects that are read side by side.
    private static let batch = 512
    /// The most changes that an index which is lost or damaged may have known, but no footer that was read. Far below
    /// what an opening takes for a plausible number.
    static let mostUnknown: UInt64 = 1 << 32

    /// Unread suspects, the newest last.
    private var suspects: [FileID] = []
    /// The newest of the suspects that are being read.
    private var current: UInt64?
    /// Suspects up to this number are older than the last line of a complete journal: they are leftovers.
    private var floor: UInt64 = 0
    /// Entries whose file decides about their life: all of them after damage, otherwise the expired ones. The newest
    /// last.
    private var unverified: [Entry] = []
    /// The entry whose file is being checked.
    private var verifying: UInt64?
    /// Dead files, with their keys where known. They are deleted once all suspects have been read, the oldest first: if
    /// a key's older file outlived its newer one, the next loss of the index would bring it back.
    private var dead: [(file: FileID, key: Key?)] = []
    private var isDeadSorted = false
    /// Entries whose files were not in the directory.
    private var missing: [Entry] = []
    /// Cleared scopes: older files in them are dead.
    private(set) var cleared = ClearMarks()
    /// Expired scopes: entries that only their files know may have ended with them.
    private(set) var marks = ExpiryMarks()
    /// The scopes among them that were expired in this session. Whatever only files know is older, and ended with them
    /// even if its last change has a higher number.
    private(set) var ownMarks = ExpiryMarks()
    /// The numbers that unread life slots may hold have been skipped.
    private var hasSkipped = false
    /// Tombstones that the journal may not record.
    private var unrecorded: [Tombstone] = []
    /// The manifest or a journal was damaged: any line may be missing.
    private(set) var isDamaged = false

    /// Suspects that could not be read, and segments. The sweep retries them.
    private(set) var unreadable: Set<FileID> = []
    /// Files set aside: after being unreadable for too long, or because others might have older files of a removed key.
    /// They are never adopted, and entries below their numbers may be dead.
    private(set) var aside: Set<UInt64> = []
    /// Tombstones that could not be read: entries below may be dead.
    private var unreadTombstones: Set<UInt64> = []
    /// Files of entries whose life could not be read.
    private(set) var unverifiable: [FileID: Key] = [:]
    /// Files of entries that a reader has checked before their turn.
    private var asked: Set<FileID> = []
    /// Tombstones and files set aside that are being retried.
    private var retried: [Step] = []

    /// Every file has been checked once.
    private(set) var hasScanned = true
    /// The scan, or a retry of unreadable files, is running: there may be dead files that no shard mentions.
    private(set) var isScanning = false
    /// The last number that is not trusted, while the files have not been listed.
    private(set) var distrusted: UInt64?

    /// Entries and files agree.
    var isConsistent: Bool { hasScanned && !hasResidue && distrusted == nil }
    /// Some file could not be read.
    private var hasResidue: Bool {
        hasUnread || !aside.isEmpty || !unreadTombstones.isEmpty || !unverifiable.isEmpty
    }
    /// There are unread files, which may hold an older or newer value of any key and would then be adopted.
    var hasUnread: Bool { !suspects.isEmpty || current != nil || !unreadable.isEmpty }

    /// Nothing to do.
    init(cleared: ClearMarks = ClearMarks()) {
        self.cleared = cleared
        self.cleared.keepOnly(.everything)
    }

    /// The findings of an opening.
    struct Findings {
        var suspects: [FileID] = []
        var unreadable: [FileID] = []
        var floor: UInt64 = 0
        var unverified: [Entry] = []
        var dead: [(file: FileID, key: Key?)] = []
        var missing: [Entry] = []
        var unrecorded: [Tombstone] = []
        var aside: [UInt64] = []
        var unreadTombstones: [UInt64] = []
        /// The index knows what they cover, but their files have to be deleted.
        var appliedTombstones: [UInt64] = []
        var isDamaged = false
    }

    /// Segments that could not be read. Their numbers are the highest that their entries may have: nothing below is
    /// returned. With an undamaged index it has everything that was acknowledged, and the number 0 hides nothing.
    ///
    /// `known`: the numbers in an earlier session.
    static func unreadable(
        _ segments: some Sequence<UInt64>, below last: UInt64, isDamaged: Bool, known: [UInt64: UInt64] = [:]
    ) -> [FileID] {
        segments.sorted().enumerated().compactMap { position, segment in
            // Each has a number of its own, under which it may be set aside.
            let number = isDamaged ? known[segment] ?? last - min(last, UInt64(position)) : 0
            return Place.whole(segment).map { FileID(number: number, place: $0) }
        }
    }

    init(_ findings: Findings, cleared: ClearMarks, marks: ExpiryMarks) {
        suspects = findings.suspects
        unreadable = Set(findings.unreadable)
        floor = findings.floor
        unverified = findings.unverified
        dead = findings.dead
        missing = findings.missing
        unrecorded = findings.unrecorded
        aside = Set(findings.aside)
        retried = findings.aside.map { .resolve(aside: $0) }
        unreadTombstones = Set(findings.unreadTombstones)
        isDamaged = findings.isDamaged
        self.cleared = cleared
        self.marks = marks
        hasScanned = false
        isScanning = true
    }

    /// Notes that a part of the index is damaged; false when that is known, and the files are still to be listed.
    mutating func distrust(through number: UInt64) -> Bool {
        defer { distrusted = max(number, distrusted ?? 0) }
        if distrusted != nil { return false }
        floor = 0
        isDamaged = true
        hasScanned = false
        isScanning = true
        return true
    }

    /// Takes what a listing of the files has shown.
    mutating func take(_ findings: Findings) {
        distrusted = nil
        hasScanned = false
        isScanning = true
        floor = findings.floor
        suspects = findings.suspects
        unreadable = Set(findings.unreadable)
        unverified = findings.unverified
        dead += findings.dead
        isDeadSorted = false
        missing = findings.missing
        aside = Set(findings.aside)
        unreadTombstones = Set(findings.unreadTombstones)
        let tombstones = findings.unreadTombstones + findings.appliedTombstones
        retried = tombstones.map { .readTombstone($0) } + aside.map { .resolve(aside: $0) }
    }

    /// Entries up to this number are not returned: an unread file may have replaced or removed them.
    var horizon: UInt64 {
        if let distrusted { return distrusted }
        var highest = max(suspects.last?.number ?? 0, current ?? 0)
        for file in unreadable { highest = max(highest, file.number) }
        if highest <= floor { highest = 0 }
        // An undamaged index already knows what a file set aside has removed.
        if isDamaged { for number in aside { highest = max(highest, number) } }
        for number in unreadTombstones { highest = max(highest, number) }
        return highest
    }

    /// True when the file has to be checked before an entry counts.
    func mustLook(at file: FileID, hasExpired: Bool) -> Bool {
        if asked.contains(file) { return false }
        if unverifiable[file] != nil { return true }
        // An entry above has been checked, was found by its file, or was stored since.
        return (isDamaged || hasExpired) && file <= max(unverified.last?.file.number ?? 0, verifying ?? 0)
    }

    /// The lowest number of the files that are not read or are dead; 0: nobody knows the numbers in one of them. Nil:
    /// there are none. One that was set aside is never adopted.
    var lowestUnread: UInt64? {
        var numbers = [suspects.first?.number, current, unreadTombstones.min()].compactMap { $0 }
        for file in unreadable { numbers.append(file.place.isWholeSegment ? 0 : file.number) }
        for (file, _) in dead { numbers.append(file.number) }
        return numbers.min()
    }

    enum Step {
        case record(Tombstone)
        case examine([FileID])
        case verify(Entry)
        case readTombstone(UInt64)
        case resolve(aside: UInt64)
        case delete(file: FileID, of: Key?)
        case check(Entry)
        case finish
    }

    /// The next step. All files are read before any is deleted, and before an entry with a missing file is forgotten.
    mutating func next() -> Step {
        if let tombstone = unrecorded.popLast() { return .record(tombstone) }
        // First: what they cover is not adopted.
        if let step = retried.popLast() { return step }
        if let newest = suspects.last {
            current = newest.number
            let files = Array(suspects.suffix(Self.batch).reversed())
            suspects.removeLast(files.count)
            return .examine(files)
        }
        if let entry = unverified.popLast() {
            verifying = entry.file.number
            return .verify(entry)
        }
        if !isDeadSorted {
            dead.sort { $0.file > $1.file }
            isDeadSorted = true
        }
        // A dead file may hide an older one that cannot be read.
        if unreadable.isEmpty, let (file, key) = dead.popLast() { return .delete(file: file, of: key) }
        if let entry = missing.popLast() { return .check(entry) }
        return .finish
    }

    /// Notes that the suspects have been read, and the outcome is visible.
    mutating func examined() {
        current = nil
    }

    mutating func couldNotRead(_ file: FileID) {
        unreadable.insert(file)
    }

    /// Has the entries of a segment examined that could not be read before.
    ///
    /// With an undamaged index they belong to changes that were under way when the session was killed, and count from
    /// now on: other entries are not hidden meanwhile.
    mutating func add(suspects files: [FileID]) {
        // Lines may say of some that they are dead.
        let known = Set(dead.lazy.map(\.file))
        suspects = (suspects + files.filter { !known.contains($0) }).sorted()
        if !isDamaged { floor = max(floor, suspects.last?.number ?? 0) }
    }

    /// True when a segment may have entries that the index does not know. During a retry nobody knows.
    func hasUnread(in segment: UInt64) -> Bool {
        isScanning || unreadable.contains { $0.place.segment == segment }
            || unverifiable.keys.contains { $0.place.segment == segment }
    }

    mutating func couldNotVerify(_ entry: Entry) {
        unverifiable[entry.file] = entry.key
        verifying = nil
    }

    /// Notes that a reader has checked the file of an entry.
    mutating func looked(at file: FileID) {
        if !hasScanned { asked.insert(file) }
        unverifiable[file] = nil
    }

    mutating func verified(_ entry: Entry) {
        unverifiable[entry.file] = nil
        verifying = nil
    }

    /// Has a file deleted once all suspects have been read.
    mutating func addOrphan(_ file: FileID, of key: Key?) {
        dead.append((file, key))
        isDeadSorted = false
    }

    /// Notes that older files of a namespace or a tag are dead.
    mutating func clear(_ scope: ClearScope, below number: UInt64) {
        cleared.add(scope, below: number)
    }

    /// Notes that entries of a namespace or with a tag have expired, unless they changed later.
    mutating func expire(_ scope: ClearScope, _ mark: ExpiryMarks.Mark) {
        marks.add(mark, to: scope)
    }

    /// The same in this session.
    mutating func expireNow(_ scope: ClearScope, _ mark: ExpiryMarks.Mark) {
        marks.add(mark, to: scope)
        ownMarks.add(mark, to: scope)
    }

    /// Returns how many numbers the first mark of the session has to skip; 0 later, and when every file has been read.
    ///
    /// A mark ends what has a lower number. Numbers of changes that only unread life slots hold may be above the last
    /// known one; they would outlive the mark, if the process were killed before the slots are read. With a complete
    /// journal these are the numbers of calls that were running when the last session was killed. With a damaged or
    /// lost index they are all changes since the newest file was stored.
    ///
    /// Once per opening, and only if a scope is expired before every file has been read. 2^20 openings with a damaged
    /// index, or 2^42 others, would use up the half of the numbers that may be skipped.
    mutating func takeSkip() -> UInt64 {
        if isConsistent || hasSkipped { return 0 }
        hasSkipped = true
        return isDamaged ? Self.mostUnknown : Self.concurrency
    }

    /// Retries everything that could not be read; false when there is nothing to retry, or the first pass has not
    /// finished.
    mutating func retry() -> Bool {
        guard hasScanned, suspects.isEmpty, unverified.isEmpty, current == nil, retried.isEmpty, !isConsistent else {
            return false
        }
        retried = unreadTombstones.map { .readTombstone($0) } + aside.map { .resolve(aside: $0) }
        suspects = unreadable.sorted()
        unreadable = []
        unverified = unverifiable.sorted { $0.key < $1.key }.map { ($0.value, $0.key) }
        isScanning = true
        return true
    }

    /// Sets aside a file that still cannot be read; false when it is no longer among those, or hides nothing: a segment
    /// beside an undamaged index.
    mutating func setAside(_ file: FileID) -> Bool {
        guard unreadable.remove(file) != nil, file.number > 0 else { return false }
        aside.insert(file.number)
        return true
    }

    mutating func resolved(aside file: UInt64) {
        aside.remove(file)
    }

    mutating func readTombstone(_ number: UInt64) {
        unreadTombstones.remove(number)
    }

    mutating func finish() {
        hasScanned = true
        isScanning = false
        asked = []
        if hasResidue { return }
        cleared.keepOnly(.everything)
        marks.removeAll()
        ownMarks.removeAll()
    }
}
