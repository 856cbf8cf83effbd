import LarderFiles

/// Brings the changes of other processes into the index before a call reads it.
///
/// A process publishes a commit by its length in the page, and then raises the epoch. So a call that begins later sees
/// another epoch, and reads what the journals of the others have had since.
final class Follower: Sendable {
    let membership: Membership
    let page: PeerPage
    let lane: Int
    private let fileSystem: any FileSystem
    /// The words of this process: the epoch up to which every change is in the index, `additions`, and the last number
    /// that an opening after a kill would look for.
    fileprivate let seen: MappedWords
    /// The epoch of the page, and the one in `seen`.
    private let epochs: WordPair
    private let state: Lock<State>
    private let actions: Actions
    /// The last number that was taken before this process has opened the directory.
    private let numberBefore: UInt64

    /// The work of the store.
    struct Actions: Sendable {
        /// Applies a change to the index.
        let apply: @Sendable (consuming Record) -> Void
        /// Reads the index anew, `isWhole` or as much of it as at an opening; nil when that failed.
        let reload: @Sendable (Follower, _ isWhole: Bool) -> JournalPositions?
        /// Returns when a commit of this process that is published in the page is in the index, too.
        let awaitOwnCommit: @Sendable () -> Void
        /// Drops all values in memory: the changes of others cannot be read, and the files decide.
        let dropValues: @Sendable () -> Void
        /// Saves soon, because another process cannot read a part of the index.
        let meetDemand: @Sendable () -> Void
        /// Forgets the graves that no change can come after any more.
        let forgetGraves: @Sendable (_ through: UInt64) -> Void
    }

    private struct State {
        var positions = JournalPositions()
        /// The journal of each lane that was read last.
        var files: [Int: (generation: UInt64, file: OwnedDescriptor)] = [:]
        /// The demands for saves that are met.
        var saveDemands: UInt64
        var hasAskedForSave = false
        /// Some call could not follow, and the index has been distrusted since.
        var hasFailed = false
        /// Records applied since graves were forgotten.
        var records = 0
    }

    /// `last`: the last number that was taken; `recorded`: the last one that the next opening finds.
    init(
        _ membership: Membership, at positions: JournalPositions, last: UInt64, recorded: UInt64,
        in fileSystem: any FileSystem, _ actions: Actions
    ) {
        self.membership = membership
        page = membership.page
        lane = membership.lane
        self.fileSystem = fileSystem
        self.actions = actions
        numberBefore = last
        nonisolated(unsafe) let words = UnsafeMutablePointer<UInt64>.allocate(capacity: 3)
        words.initialize(to: positions.epoch)
        (words + 1).initialize(to: 0)
        // The page knows the last number, if others may join.
        (words + 2).initialize(to: membership.mayBeJoined ? .max : recorded + Reconciliation.reach)
        seen = MappedWords(words, count: 3) { words.deallocate() }
        epochs = page.epochs(beside: 0, of: seen)
        state = Lock(State(positions: positions, saveDemands: membership.page.saveDemands))
    }

    /// The last number from before the session. Where others may join, every change up to it is published or has failed.
    ///
    /// `copy`: the lowest number of a copy that this process is making.
    func lastNumberBefore(_ copy: UInt64) -> UInt64 {
        if !membership.mayBeJoined { return numberBefore }
        return min(page.lowestOpen(sparingCopiesOf: lane), copy) - 1
    }

    /// True when an opening after a kill would not look for the file of a number, unless the journal asks for a listing.
    @inline(__always)
    func isBeyondReach(_ number: UInt64) -> Bool { number > seen.load(2) }

    /// Notes that a line records a number.
    @inline(__always)
    func noteRecorded(_ number: UInt64) {
        let reach = number &+ Reconciliation.reach
        if reach > seen.load(2) { seen.raise(reach, at: 2) }
    }

    /// Notes that a change has no line. Returns whether others may join, which must know.
    func noteUnrecorded() -> Bool {
        if membership.mayBeJoined { page.noteUnrecorded() }
        return membership.mayBeJoined
    }

    /// Brings every change into the index whose call has returned. Without one it reads two words.
    ///
    /// - Returns: False when it cannot: the index may be older, and no call may answer from it. Also in a forked child
    ///   process, which must not use the cache of its parent.
    @inline(__always)
    func follow() -> Bool {
        epochs.areKnownEqual || compareAndCatchUp(self)
    }

    /// True when there are changes that are not in the index.
    @inline(__always)
    var isBehind: Bool { page.epoch != seen.load(0) }

    /// Whether nobody else is there at the moment.
    @inline(__always)
    var isAlone: Bool { page.isAlone(lane) }

    /// How often changes of others were added to the index, twice for each time; odd while some are being added.
    var additions: UInt64 { seen.load(1) }

    /// True when some changes may have been added since, or were being added then.
    @inline(__always)
    func mayHaveAdded(since additions: UInt64) -> Bool { additions & 1 == 1 || seen.load(1) != additions }

    private func adding<Result>(_ body: () -> Result) -> Result {
        seen.add(1, at: 1)
        defer { seen.add(1, at: 1) }
        return body()
    }

    /// True in a child process that was forked from the one that has the directory open.
    var isForked: Bool { page.isGone && !membership.hasLeft.isSet }

    /// The reason why `follow` has returned false.
    func failure(_ path: String) -> CacheError {
        if isForked { return .forked(path) }
        if membership.hasLeft.isSet { return .closed(path) }
        return CacheError(
            code: .io,
            message: "The journals of other processes cannot be read. If that lasts, close the cache in all of them.",
            path: path)
    }

    /// Notes a commit of this process, which is in the index, by its epoch.
    func noteOwnCommit(_ epoch: UInt64) {
        _ = seen.replace(epoch - 1, with: epoch, at: 0)
    }

    /// Notes that the change of a slot is published or has failed.
    @inline(__always)
    func endChange(slot: Int) {
        page.endChange(slot: slot, of: lane)
    }

    /// Notes the lowest number of a copy that this process is making; 0: none.
    func noteStaged(_ number: UInt64) {
        page.noteStaged(number, of: lane)
    }

    fileprivate func catchUp() -> Bool {
        // Forked, or closed. Without a lock: in the child, nobody would release it.
        if page.isGone { return false }
        return state.withLock { state in
            let epoch = page.epoch
            if epoch == seen.load(0) { return true }
            actions.awaitOwnCommit()
            if epoch == seen.load(0) { return true }
            let isPublishing = page.isPublishing(but: lane)
            guard readAll(&state) else {
                state.hasFailed = true
                return false
            }
            if state.hasFailed, !reload(isWhole: true, &state) { return false }
            if case let demands = page.saveDemands, demands != state.saveDemands {
                actions.meetDemand()
                state.saveDemands = demands
            }
            if !isPublishing { seen.raise(epoch, at: 0) }
            return true
        }
    }

    /// Closes the journals of others, at the end of the session or when the store moves.
    func stop() {
        state.withLock { $0.files = [:] }
    }

    /// Follows, and returns the journals that other processes have in use and the parts of them that are in the index;
    /// nil when it cannot follow.
    func journalsInUse() -> [JournalPart]? {
        // First: an owner that ends later may have changed something meanwhile.
        let alive = Set(page.alive.bits)
        return state.withLock { state in
            guard readAll(&state) else { return nil }
            return state.positions.lanes.filter { alive.contains($0.key) && $0.value.part.generation > 0 }
                .map(\.value.part).sorted { $0.generation < $1.generation }
        }
    }

    /// After how many records graves are forgotten.
    private static let mostRecords = 4096

    /// False when the index could not be brought up to date.
    private func readAll(_ state: inout State) -> Bool {
        let targets = JournalPositions(of: page, but: lane)
        guard targets.isWhole else { return false }
        let behind = targets.lanes.filter { $0.value != state.positions.lanes[$0.key] }
        guard behind.isEmpty || adding({ add(behind, &state) }) else {
            return reload(isWhole: false, &state)
        }
        state.positions = targets
        if state.records > Self.mostRecords {
            state.records = 0
            // First the number, then the changes below it.
            let settled = page.lowestOpen
            guard readAll(&state) else { return false }
            actions.forgetGraves(settled)
        }
        return true
    }

    private func reload(isWhole: Bool, _ state: inout State) -> Bool {
        guard let positions = adding({ actions.reload(self, isWhole) }) else { return false }
        state.positions = positions
        state.files = [:]
        state.hasFailed = false
        return true
    }

    /// Reads the whole index anew, because a part could not be read. False when it still cannot: the others are then
    /// asked to save theirs, once.
    func reread() -> Bool {
        state.withLock { state in
            if reload(isWhole: true, &state) {
                state.hasAskedForSave = false
                return true
            }
            if !state.hasAskedForSave {
                state.hasAskedForSave = true
                page.demandSaves()
                state.saveDemands += 1
            }
            return false
        }
    }

    /// Gives up what cannot be read of the journals of others, who are dead: the files decide what it was. Returns false
    /// when the disk only fails at the moment.
    func skipUnread() -> Bool {
        state.withLock { state in
            let epoch = page.epoch
            let isRead = readAll(&state)
            let targets = JournalPositions(of: page, but: lane)
            guard !isRead, targets.isWhole else {
                actions.dropValues()
                state.hasFailed = false
                return true
            }
            var records: [Record.Placed] = []
            for (lane, target) in targets.lanes.inOrder(of: { $0.key }) where target != state.positions.lanes[lane] {
                var placer = Record.Placer()
                do throws(Errno) {
                    try readIntact(lane, to: target, &state) { records.append(placer.place($0)) }
                } catch {
                    return false
                }
            }
            adding { for record in Record.inOrder(records) { actions.apply(record) } }
            actions.dropValues()
            state.positions = targets
            state.files = [:]
            state.hasFailed = false
            seen.raise(epoch, at: 0)
            return true
        }
    }

    /// Reads the intact lines of what a lane has published. Throws when the disk fails.
    private func readIntact(
        _ lane: Int, to target: JournalPositions.Position, _ state: inout State, _ body: (consuming Record) -> Void
    ) throws(Errno) {
        let known = state.positions.lanes[lane] ?? JournalPositions.Position()
        guard known.number <= target.number, let root = membership.root else { return }
        // A damaged page may say anything.
        let first = max(known.number, page.numbers(through: target.number).lowerBound, 1)
        for number in first...max(target.number, first) {
            let part = number == target.number ? target.part : page.journal(number, of: lane)
            let start = number == known.number ? known.part.length : 0
            guard let part, start < part.length else { continue }
            let file: OwnedDescriptor
            do throws(Errno) {
                let name = DirectoryLayout.journal(part.generation).name
                guard let found = try fileSystem.openRegular(name, in: root.file) else { continue }
                file = found.file
            } catch {
                if error == .noEntry { continue }
                throw error
            }
            let end = try? LineReader(fileSystem: fileSystem).forEachLine(of: file.file, in: start..<part.length) {
                line -> Bool in
                switch Line(line) {
                case .record(.header), .record(.closed), .record(.groups), .record(.unknown): break
                case .record(let record): body(record)
                case .damaged, .end, .blank: break
                }
                return true
            }
            if end == nil { throw .io }
        }
    }

    /// Adds what lanes have published to the index. Returns false when a part is no longer there; what is added already
    /// does no harm.
    private func add(_ behind: [Int: JournalPositions.Position], _ state: inout State) -> Bool {
        if behind.count == 1, let (lane, target) = behind.first {
            // Straight from the bytes: that takes half as long.
            return read(lane, to: target, &state) { actions.apply($0) }
        }
        var records: [Record.Placed] = []
        for (lane, target) in behind.inOrder(of: { $0.key }) {
            var placer = Record.Placer()
            guard read(lane, to: target, &state, { records.append(placer.place($0)) }) else { return false }
        }
        for record in Record.inOrder(records) { actions.apply(record) }
        return true
    }

    /// Reads what a lane has published. Returns false when it is no longer there.
    private func read(
        _ lane: Int, to target: JournalPositions.Position, _ state: inout State, _ body: (consuming Record) -> Void
    ) -> Bool {
        let known = state.positions.lanes[lane] ?? JournalPositions.Position()
        // A damaged page may say anything.
        guard known.number <= target.number else { return false }
        for number in max(known.number, 1)...max(target.number, 1) {
            let isLast = number == target.number
            let found = isLast ? target.part : page.journal(number, of: lane)
            guard let part = found else { return false }
            let start = number == known.number ? known.part.length : 0
            if start == part.length { continue }
            guard start < part.length else { return false }
            guard read(lane, part, from: start, &state, body) else { return false }
        }
        return true
    }

    private func read(
        _ lane: Int, _ part: JournalPart, from start: Int, _ state: inout State, _ body: (consuming Record) -> Void
    ) -> Bool {
        do throws(Errno) {
            guard let root = membership.root else { return false }
            if state.files[lane]?.generation != part.generation {
                let name = DirectoryLayout.journal(part.generation).name
                guard let (file, _) = try fileSystem.openRegular(name, in: root.file) else { return false }
                state.files[lane] = (part.generation, file)
            }
            guard let file = state.files[lane]?.file else { return false }
            // In pieces: the page may claim any length.
            var (isIntact, count) = (true, 0)
            let end = try? LineReader(fileSystem: fileSystem).forEachLine(of: file.file, in: start..<part.length) {
                line -> Bool in
                switch Line(line) {
                case .record(.header), .record(.closed), .record(.groups), .record(.unknown), .blank: break
                case .record(let record):
                    body(record)
                    count += 1
                case .damaged, .end: isIntact = false
                }
                return isIntact
            }
            state.records += count
            return isIntact && end == part.length
        } catch {
            return false
        }
    }
}

/// The rest of `Follower.follow`. A method would have to be handed its object in another register, which every hit in
/// memory would save and restore.
@inline(never)
private func compareAndCatchUp(_ follower: Follower) -> Bool {
    follower.page.epoch == follower.seen.load(0) || follower.catchUp()
}
