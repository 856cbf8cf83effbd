import LarderFiles

/// The words that all processes of a directory have mapped: counters, locks, and a *lane* for each process.
///
/// The page is only a hint. The first process begins it anew, from the files; the others wait for that. Each word has
/// one meaning, so no reader sees half of a change.
struct PeerPage: Sendable {
    let words: MappedWords

    static let laneCount = 64
    static let stripeCount = 64
    static let wordCount = lanes + laneCount * laneLength
    /// Bytes.
    static let size = wordCount * 8

    // Counters that are written often have cache lines of their own.
    private static let format = 0
    private static let inode = 1
    private static let boot = 2
    private static let tokenWord = 3
    private static let provedWord = 4
    private static let epochWord = 8
    private static let numberWord = 16
    private static let generationWord = 24
    private static let begunSaveWord = 25
    private static let savedWord = 26
    private static let deathsWord = 27
    private static let cleanedWord = 28
    private static let saveDemandsWord = 29
    private static let unrecordedWord = 30
    private static let aliveWord = 32
    private static let usedWord = 33
    private static let roles = 40
    private static let stripes = 64
    private static let lanes = 128

    // In a lane.
    private static let owner = 0
    private static let journalCount = 1
    private static let staged = 2
    private static let beginning = 3
    private static let publishing = 4
    private static let removing = 5
    private static let journals = 8
    private static let keptJournals = 32
    private static let openChanges = 72
    /// One for each stripe of the process, and one for changes that concern every key.
    static let openCount = 65
    private static let owed = 144
    private static let laneLength = 208

    /// Changes with the layout. A page with another value is begun anew.
    private static let currentFormat: UInt64 = 0x4c61_7264_6572_0002
}

/// Beginning.
extension PeerPage {
    /// True when a file is a page, of this layout or another.
    static func isPage(_ file: borrowing FileDescriptor, in fileSystem: any FileSystem) throws(Errno) -> Bool {
        var bytes = [UInt8](repeating: 0, count: 8)
        guard try fileSystem.read(file, at: 0, into: &bytes) == bytes.count else { return false }
        let word = bytes.withBytes { UInt64(littleEndian: $0.loadUnaligned(as: UInt64.self)) }
        return word >> 16 == currentFormat >> 16
    }

    /// True when only its owner can change a file, which is the user of this process, and it has no other name.
    static func isSafe(_ file: borrowing FileDescriptor, in fileSystem: any FileSystem) throws(Errno) -> Bool {
        let status = try fileSystem.status(of: file)
        return status.owner.user == fileSystem.userID && !status.isWritableByOthers && status.links <= 1
    }

    /// The file and the boot that a page belongs to. The lengths in a copy of it, or from before a power cut, mean
    /// nothing.
    struct Origin: Equatable {
        /// Of the page's file.
        let inode: UInt64
        let boot: UInt64
    }

    /// True when the page was last used for these journals.
    func isOf(_ origin: Origin) -> Bool { isIn(origin.inode) && words.load(Self.boot) == origin.boot }

    /// True when the page was begun in this file. That of living processes is of this boot.
    func isIn(_ inode: UInt64) -> Bool {
        words.load(Self.format) == Self.currentFormat && words.load(Self.inode) == inode
    }

    /// True when this process has no access to the page: it was forked from the one that had, or has left.
    var isGone: Bool { words.load(Self.format) == 0 }

    /// The bytes of `shared` where the page is elsewhere.
    static var mark: [UInt8] { withUnsafeBytes(of: (currentFormat & ~0xFFFF).littleEndian) { Array($0) } }

    /// Copies the bytes of a page into memory of this process.
    init(copying bytes: [UInt8]) {
        nonisolated(unsafe) let start = UnsafeMutableRawPointer.allocate(byteCount: Self.size, alignment: 8)
        start.initializeMemory(as: UInt8.self, repeating: 0, count: Self.size)
        start.copyMemory(from: bytes, byteCount: min(bytes.count, Self.size))
        words = MappedWords(start, count: Self.wordCount, detach: {}) { start.deallocate() }
    }

    /// Tells the page from others of the same directory that are in other shared memory; 0: it is in the directory.
    var token: UInt64 { words.load(Self.tokenWord) }

    /// The page of a process that has the directory alone, in its own memory.
    static func alone() throws(Errno) -> PeerPage {
        let page = PeerPage(words: try .ofProcess(count: wordCount))
        page.words.store(1, at: epochWord)
        page.words.store(currentFormat, at: format)
        return page
    }

    /// Begins the page anew. No other process may be alive.
    func begin(_ origin: Origin, token: UInt64 = 0) {
        words.clear()
        // First: whoever finds the directory now, or after a kill, must know that it is a cache.
        words.store(Self.currentFormat & ~0xFFFF, at: Self.format)
        words.store(1, at: Self.epochWord)
        words.store(origin.inode, at: Self.inode)
        words.store(origin.boot, at: Self.boot)
        words.store(token, at: Self.tokenWord)
        words.store(Self.currentFormat, at: Self.format)
    }
}

/// Counters.
extension PeerPage {
    /// Changes with every commit.
    var epoch: UInt64 { words.load(Self.epochWord) }

    /// The epoch beside a word of this process, to be compared.
    func epochs(beside position: Int, of others: MappedWords) -> WordPair {
        WordPair(Self.epochWord, of: words, position, of: others)
    }

    @discardableResult
    func nextEpoch() -> UInt64 { words.add(1, at: Self.epochWord) }

    /// The last sequence number taken.
    var lastNumber: UInt64 { words.load(Self.numberWord) }

    func takeNumber() -> UInt64 { words.add(1, at: Self.numberWord) }

    func skipNumbers(_ count: UInt64) { words.add(count, at: Self.numberWord) }

    func raiseNumbers(to number: UInt64) { words.raise(number, at: Self.numberWord) }

    /// The highest generation of a journal.
    var lastGeneration: UInt64 { words.load(Self.generationWord) }

    func raiseGenerations(to generation: UInt64) { words.raise(generation, at: Self.generationWord) }

    /// The generation of the last save that has begun.
    var begunSave: UInt64 { words.load(Self.begunSaveWord) }

    func noteBegunSave(_ generation: UInt64) { words.raise(generation, at: Self.begunSaveWord) }

    /// The generation of the manifest.
    var savedGeneration: UInt64 { words.load(Self.savedWord) }

    func noteSaved(_ generation: UInt64) { words.raise(generation, at: Self.savedWord) }

    /// How many processes have died. They may have left files.
    var deaths: UInt64 { words.load(Self.deathsWord) }

    /// How many of them have left none any more.
    var cleanedDeaths: UInt64 { words.load(Self.cleanedWord) }

    /// True while dead processes may have left files.
    var hasUncleanedDeaths: Bool { deaths != cleanedDeaths }

    /// How often a process asked the others to save, because the index on disk is damaged.
    var saveDemands: UInt64 { words.load(Self.saveDemandsWord) }

    func demandSaves() {
        words.add(1, at: Self.saveDemandsWord)
        nextEpoch()
    }

    /// How many changes have no record, because the disk was full. A process that joins later may find entries whose
    /// files are gone.
    var unrecorded: UInt64 { words.load(Self.unrecordedWord) }

    func noteUnrecorded() { words.add(1, at: Self.unrecordedWord) }

    /// Notes that the index on disk knows so many of them, if there are no others.
    func noteRecorded(_ count: UInt64) { _ = words.replace(count, with: 0, at: Self.unrecordedWord) }

    /// True when all journals that the index needs are in the page, with their lengths. Otherwise nobody knows whether
    /// lines are missing.
    var isProved: Bool { words.load(Self.provedWord) != 0 }

    func noteProved() { words.store(1, at: Self.provedWord) }

    /// Takes over journals of earlier sessions, in which nothing is missing. Too many are left to the next save.
    func take(_ journals: [JournalPart], in lane: Int) {
        guard journals.count < Self.keptJournals - 2 else { return }
        for journal in journals { announce(journal, of: lane) }
        noteProved()
    }

    /// Notes that a process may have left files, which those that can read them delete.
    func noteDeath() { words.add(1, at: Self.deathsWord) }

    func noteCleaned(_ deaths: UInt64) { words.raise(deaths, at: Self.cleanedWord) }
}

/// Lanes.
extension PeerPage {
    private func word(_ lane: Int, _ position: Int) -> Int { Self.lanes + lane * Self.laneLength + position }

    /// A bit for each lane with an owner, alive or not yet buried.
    var alive: UInt64 { words.load(Self.aliveWord) }

    /// A bit for each lane that ever had an owner. Others may still have to read its journals.
    var used: UInt64 { words.load(Self.usedWord) }

    /// Whether no other lane has an owner.
    @inline(__always)
    func isAlone(_ lane: Int) -> Bool { alive == 1 << UInt64(lane) }

    private func set(_ lane: Int, in word: Int, _ isSet: Bool) {
        let bit = UInt64(1) << UInt64(lane)
        while case let known = words.load(word), (known & bit != 0) != isSet {
            if words.replace(known, with: known ^ bit, at: word) { return }
        }
    }

    func hasOwner(_ lane: Int) -> Bool { words.load(word(lane, Self.owner)) != 0 }

    func begin(_ lane: Int) {
        words.store(1, at: word(lane, Self.owner))
        set(lane, in: Self.usedWord, true)
        set(lane, in: Self.aliveWord, true)
    }

    /// Frees a lane. With `isDead`, its owner may have left files.
    func end(_ lane: Int, isDead: Bool) {
        if isDead {
            noteDeath()
            // It may have published a change without raising the epoch. Before anybody else changes the key.
            nextEpoch()
        }
        for stripe in 0..<Self.stripeCount { release(Self.stripes + stripe, of: lane) }
        for role in Role.allCases { release(Self.roles + role.rawValue, of: lane) }
        for slot in 0..<Self.openCount { words.store(0, at: word(lane, Self.openChanges + slot)) }
        for shard in 0..<Index.shardCount { words.store(0, at: word(lane, Self.owed + shard)) }
        words.store(0, at: word(lane, Self.staged))
        words.store(0, at: word(lane, Self.beginning))
        words.store(0, at: word(lane, Self.publishing))
        words.store(0, at: word(lane, Self.removing))
        // The next owner has no journal yet.
        if journalCount(of: lane) > 0 { announce(JournalPart(generation: 0, length: 0), of: lane) }
        set(lane, in: Self.aliveWord, false)
        words.store(0, at: word(lane, Self.owner))
    }

    /// The number of journals that the owners of a lane have begun.
    @inline(__always)
    func journalCount(of lane: Int) -> UInt64 { words.load(word(lane, Self.journalCount)) }

    /// Returns the n-th journal of a lane, counted from 1, with its committed part; nil when it has been forgotten.
    func journal(_ number: UInt64, of lane: Int) -> JournalPart? {
        let position = place(of: number, lane)
        let (generation, length) = (words.load(position), words.load(position + 1))
        // The place is used again by a later journal, but not before the one in between is counted as begun.
        guard journalCount(of: lane) &- number < UInt64(Self.keptJournals) - 1, generation <= Record.lastNumber,
            length < 1 << 48
        else { return nil }
        return JournalPart(generation: generation, length: Int(length))
    }

    /// Notes that the end of a journal, which was the clean-shutdown marker, is about to be cut off.
    func shorten(_ journal: JournalPart, from length: Int) {
        for lane in used.bits {
            for number in numbers(through: journalCount(of: lane))
            where self.journal(number, of: lane) == JournalPart(generation: journal.generation, length: length) {
                words.store(UInt64(journal.length), at: place(of: number, lane) + 1)
            }
        }
    }

    /// The journals that have lines, as far as they are remembered, with the lengths of their committed parts.
    var announcedJournals: [UInt64: Int] {
        var found: [UInt64: Int] = [:]
        for lane in used.bits {
            for number in numbers(through: journalCount(of: lane)) {
                if let part = journal(number, of: lane), part.length > 0 { found[part.generation] = part.length }
            }
        }
        return found
    }

    /// The journals of a lane before its n-th, as far as they are remembered.
    func journals(before number: UInt64, of lane: Int) -> [JournalPart] {
        numbers(through: number).dropLast().compactMap { journal($0, of: lane) }
    }

    /// The numbers of the journals that may be remembered, up to one.
    func numbers(through last: UInt64) -> ClosedRange<UInt64> {
        max(last, UInt64(Self.keptJournals)) - UInt64(Self.keptJournals)...last
    }

    private func place(of number: UInt64, _ lane: Int) -> Int {
        word(lane, Self.journals + 2 * Int(number % UInt64(Self.keptJournals)))
    }

    /// A journal that a lane is creating, and has not announced.
    enum BeginningJournal: Equatable, Sendable {
        /// It may not exist, and has no lines.
        case soon
        case created(UInt64)
    }

    func beginningJournal(of lane: Int) -> BeginningJournal? {
        switch words.load(word(lane, Self.beginning)) {
        case 0: nil
        case .max: .soon
        case let generation: .created(generation)
        }
    }

    func note(_ journal: BeginningJournal?, of lane: Int) {
        let value: UInt64 =
            switch journal {
            case nil: 0
            case .soon: .max
            case .created(let generation): generation
            }
        words.store(value, at: word(lane, Self.beginning))
    }

    /// Announces the next journal of a lane. Returns the place of its length. The page proves nothing more when it has
    /// to forget a journal that no save has replaced.
    @discardableResult
    func announce(_ journal: JournalPart, of lane: Int) -> Int {
        let number = journalCount(of: lane) &+ 1
        let position = place(of: number, lane)
        let (forgotten, length) = (words.load(position), words.load(position + 1))
        if length > 0, forgotten >= savedGeneration { words.store(0, at: Self.provedWord) }
        words.store(journal.generation, at: position)
        words.store(UInt64(journal.length), at: position + 1)
        words.store(number, at: word(lane, Self.journalCount))
        return position + 1
    }

    /// Publishes what was appended to the last journal of a lane: with the length. The epoch comes first, and others go
    /// on looking until this call is over, so it makes no difference where in it the process is killed. Returns the new
    /// epoch.
    @inline(__always)
    func publish(length: Int, at place: Int, of lane: Int) -> UInt64 {
        let publishing = word(lane, Self.publishing)
        words.store(1, at: publishing)
        let epoch = nextEpoch()
        words.store(UInt64(length), at: place)
        words.store(0, at: publishing)
        return epoch
    }

    /// True while another lane publishes. Ask after the epoch has been read, and before the lengths are.
    func isPublishing(but own: Int?) -> Bool {
        alive.bits.contains { $0 != own && words.load(word($0, Self.publishing)) != 0 }
    }
}

/// Changes that have a number and are not published.
extension PeerPage {
    /// A word for an open change: its number, its stripe, and two bits.
    private static let stripeShift: UInt64 = 56
    private static let wholeBit: UInt64 = 1 << 62
    private static let boundBit: UInt64 = 1 << 63
    private static let numberMask: UInt64 = 1 << 56 - 1

    /// Announces a change in a slot of a lane, and takes its number. A nil stripe: it concerns every key.
    @inline(__always)
    func beginChange(stripe: Int?, slot: Int, of lane: Int) -> UInt64 {
        let position = word(lane, Self.openChanges + slot)
        let kind = stripe.map { UInt64($0) << Self.stripeShift } ?? Self.wholeBit
        // First, so that a process that takes a higher number finds it.
        words.store((lastNumber + 1) | kind | Self.boundBit, at: position)
        let number = takeNumber()
        words.store(number & Self.numberMask | kind, at: position)
        return number
    }

    /// Notes that the change in a slot is published or has failed.
    @inline(__always)
    func endChange(slot: Int, of lane: Int) {
        let position = word(lane, Self.openChanges + slot)
        if words.load(position) != 0 { words.store(0, at: position) }
    }

    /// True while a lane may have an open change below a number that concerns a stripe, or nil: one of all stripes.
    func hasOpenChange(below number: UInt64, stripe: Int?, of lane: Int) -> Bool {
        for slot in 0..<Self.openCount {
            let open = words.load(word(lane, Self.openChanges + slot))
            if open == 0 || open & Self.numberMask >= number { continue }
            if Self.concerns(open, stripe) { return true }
        }
        return false
    }

    private static func concerns(_ open: UInt64, _ stripe: Int?) -> Bool {
        open & wholeBit != 0 || Int(open >> stripeShift & 63) == stripe
    }

    /// Notes the lowest number of a copy that is being staged; 0: none.
    func noteStaged(_ number: UInt64, of lane: Int) {
        words.store(number, at: word(lane, Self.staged))
    }

    /// Every change with a lower number is published or has failed.
    var lowestOpen: UInt64 { lowestOpen(sparingCopiesOf: nil) }

    /// The same, without the copies that a lane is making.
    func lowestOpen(sparingCopiesOf spared: Int?) -> UInt64 {
        var lowest = lastNumber + 1
        for lane in alive.bits {
            for slot in 0..<Self.openCount {
                let open = words.load(word(lane, Self.openChanges + slot)) & Self.numberMask
                if open != 0 { lowest = min(lowest, open) }
            }
            let staged = words.load(word(lane, Self.staged))
            if staged != 0, lane != spared { lowest = min(lowest, staged) }
        }
        return lowest
    }
}

/// Dead files that are still there.
extension PeerPage {
    /// Where a lane notes the lowest number of the dead files in one of its shards that it has still to delete.
    func debts(of lane: Int, shard: Int) -> DebtNote { DebtNote(words: words, position: word(lane, Self.owed + shard)) }

    /// Notes that a lane publishes a removal. Until it has deleted the files, or has noted them among its debts, nobody
    /// knows their numbers.
    func beginRemoving(of lane: Int) { words.add(1, at: word(lane, Self.removing)) }

    func endRemoving(of lane: Int) { words.add(.max, at: word(lane, Self.removing)) }

    /// The lowest number of the files that other lanes have still to delete, are storing or moving; `.max`: none. 0: it
    /// is not known, because a lane is publishing removals, or what dead processes have left.
    ///
    /// `stripe`: that of the keys in question; nil: all keys.
    func lowestDebt(but own: Int, stripe: Int? = nil) -> UInt64 {
        var lowest = UInt64.max
        for lane in alive.bits where lane != own {
            if words.load(word(lane, Self.removing)) != 0 { return 0 }
            // In this order: whoever ends a change has noted before what the change has replaced.
            for slot in 0..<Self.openCount {
                let open = words.load(word(lane, Self.openChanges + slot))
                if open == 0 { continue }
                if let stripe, !Self.concerns(open, stripe) { continue }
                lowest = min(lowest, open & Self.numberMask)
            }
            let staged = words.load(word(lane, Self.staged))
            if staged != 0 { lowest = min(lowest, staged) }
            for shard in 0..<Index.shardCount {
                let owed = words.load(word(lane, Self.owed + shard))
                if owed != 0 { lowest = min(lowest, owed) }
            }
        }
        // Last: a lane is counted among the deaths before its words are cleared.
        return hasUncleanedDeaths ? 0 : lowest
    }
}

/// Locks. Each is a word with the lane of its holder. The holder releases it, or the process that buries the holder.
extension PeerPage {
    /// Work that one process does at a time.
    enum Role: Int, CaseIterable {
        case save, clean, sweep, evict
    }

    func tryLock(_ role: Role, by lane: Int) -> Bool { lock(Self.roles + role.rawValue, by: lane) }
    func unlock(_ role: Role, by lane: Int) { release(Self.roles + role.rawValue, of: lane) }
    func tryLock(stripe: Int, by lane: Int) -> Bool { lock(Self.stripes + stripe, by: lane) }
    func unlock(stripe: Int, by lane: Int) { release(Self.stripes + stripe, of: lane) }

    private func lock(_ position: Int, by lane: Int) -> Bool {
        words.replace(0, with: UInt64(lane) + 1, at: position)
    }

    private func release(_ position: Int, of lane: Int) {
        _ = words.replace(UInt64(lane) + 1, with: 0, at: position)
    }

    /// The lane of the holder of a stripe; nil: nobody.
    func holder(ofStripe stripe: Int) -> Int? {
        let holder = words.load(Self.stripes + stripe)
        return holder == 0 ? nil : Int(holder) - 1
    }
}

extension UInt64 {
    /// The positions of the bits that are set.
    var bits: some Sequence<Int> {
        sequence(state: self) { rest -> Int? in
            if rest == 0 { return nil }
            defer { rest &= rest - 1 }
            return rest.trailingZeroBitCount
        }
    }
}
