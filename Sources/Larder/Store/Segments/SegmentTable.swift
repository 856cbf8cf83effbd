import LarderFiles

/// The segments in a directory of entries, each open while it is used often.
final class SegmentTable: Sendable {
    /// The key of the directory itself among the segments with unsynced changes.
    static let names: UInt64 = 0
    /// The directory of the segments, in that of the entries.
    static let name = FileName.text("segments")
    /// The number of segments that are open for reading in all caches of the process, approximately.
    private static let mostOpen = 64
    /// Caches with segments, which share that number.
    private static let tables = ProcessLock(0)
    private let isCounted = Flag()

    let entries: OwnedDescriptor
    let fileSystem: any FileSystem
    let state = Lock(State())
    let dead = DeadBytes()

    struct State {
        var directory: OwnedDescriptor?
        var open: [UInt64: Segment] = [:]
        /// Segments whose lock this process holds.
        var claimed: Set<UInt64> = []
        /// Segments with marks that may not be on stable storage, each with the number of the last one.
        var unsynced: [UInt64: Int] = [:]
        private var changes = 0
        /// Segments that are to be cleaned, the dirtiest last.
        var dirty: [Dirty] = []
        /// Segments whose entries are not to be marked in the background.
        var held: Set<UInt64> = []
        /// The marks of earlier sessions, and their names of segments, are on stable storage.
        var isSynced = false

        /// Returns the first open segment that was not used since the last call, or the first; those before it count as
        /// unused then. O(open segments).
        func leastUsed() -> UInt64? {
            let unused = open.lazy.filter { !$0.value.isInUse.isSet }.map(\.key).min()
            for (number, segment) in open where number < unused ?? .max { segment.isInUse.set(false) }
            return unused ?? open.keys.min()
        }

        mutating func noteChange(of number: UInt64) {
            changes += 1
            unsynced[number] = changes
        }
    }

    init(of entries: OwnedDescriptor, in fileSystem: any FileSystem) {
        self.entries = entries
        self.fileSystem = fileSystem
    }

    deinit {
        if isCounted.isSet { Self.tables.withLock { $0 -= 1 } }
    }
}

/// Opening.
extension SegmentTable {
    /// Returns an open segment; throws `.noEntry` when there is none, `.notRegular` when the name is not ours.
    func segment(_ number: UInt64) throws(Errno) -> Segment {
        if let open = state.withLock({ $0.open[number] }) {
            if !open.isInUse.isSet { open.isInUse.set() }
            return open
        }
        return try openSegment(number)
    }

    @inline(never)
    private func openSegment(_ number: UInt64) throws(Errno) -> Segment {
        let segment = try inDirectory { directory throws(Errno) in try open(number, in: directory) }
        // Without a header it may be one that another process is creating.
        if segment.header != nil { keep(segment) }
        return segment
    }

    private func open(_ number: UInt64, in directory: OwnedDescriptor) throws(Errno) -> Segment {
        // One that only reads still can.
        let use: OpenUse = fileSystem.isReadOnly ? .reading : .updating
        let file = try fileSystem.open(.number(number), in: directory.file, for: use)
        var bytes = [UInt8](repeating: 0, count: SegmentFormat.start)
        bytes.removeLast(bytes.count - (try fileSystem.read(file, at: 0, into: &bytes)))
        var header: SegmentFormat.Header?
        if case .valid(let found) = bytes.withBytes({ SegmentFormat.header(of: number, $0) }) { header = found }
        return Segment(number, OwnedDescriptor(file), header, in: fileSystem)
    }

    private func keep(_ segment: Segment) {
        let limit = Self.tables.withLock { tables in
            if !isCounted.isSet {
                isCounted.set()
                tables += 1
            }
            return max(4, Self.mostOpen / tables)
        }
        var isKept = false
        while !isKept {
            // Closed after the lock, and one at a time: a thread that is interrupted here must not hold many of them.
            _ = state.withLock { state -> Segment? in
                if state.open.count >= limit, let number = state.leastUsed() {
                    return state.open.removeValue(forKey: number)
                }
                isKept = true
                return state.open.updateValue(segment, forKey: segment.number)
            }
        }
    }

    /// The directory of the segments; nil when there is none.
    func directory() throws(Errno) -> OwnedDescriptor? {
        if let open = state.withLock({ $0.directory }) { return open }
        do throws(Errno) {
            let opened = OwnedDescriptor(try fileSystem.open(Self.name, in: entries.file, for: .directory))
            return state.withLock { state in
                if state.directory == nil { state.directory = opened }
                return state.directory
            }
        } catch {
            // Something else may have the name: it is left alone.
            guard [.noEntry, .notDirectory, .notRegular].contains(error) else { throw error }
            return nil
        }
    }

    /// Runs `body` with the directory of the segments; once more where somebody has deleted or replaced that. Throws
    /// `.noEntry` when there is none.
    private func inDirectory<Result>(
        _ body: (OwnedDescriptor) throws(Errno) -> Result
    ) throws(Errno) -> Result {
        guard let known = try directory() else { throw .noEntry }
        do throws(Errno) {
            return try body(known)
        } catch {
            guard error == .noEntry, closeReplaced(known) else { throw error }
        }
        guard let next = try directory() else { throw .noEntry }
        return try body(next)
    }

    /// Closes the directory of the segments if its name does not lead to it any more. Returns whether it did.
    private func closeReplaced(_ known: OwnedDescriptor) -> Bool {
        let named = try? fileSystem.status(of: Self.name, in: entries.file).identity
        if let open = try? fileSystem.status(of: known.file).identity, open == named { return false }
        let released = state.withLock { state in state.directory === known ? state.directory.take() : nil }
        _ = released
        return true
    }

    /// Creates a segment with its lock taken, and the directory if need be; throws `.exists` when the number is in use,
    /// and `.notDirectory` when something else has the name of the directory.
    func create(_ number: UInt64) throws(Errno) -> Segment {
        let directory = try madeDirectory()
        do throws(Errno) {
            return try create(number, in: directory)
        } catch {
            guard error == .noEntry, closeReplaced(directory) else { throw error }
        }
        return try create(number, in: try madeDirectory())
    }

    private func madeDirectory() throws(Errno) -> OwnedDescriptor {
        var directory = try directory()
        if directory == nil {
            do throws(Errno) {
                try fileSystem.makeDirectory(Self.name, in: entries.file)
            } catch {
                guard error == .exists else { throw error }
            }
            directory = try self.directory()
        }
        guard let directory else { throw .notDirectory }
        return directory
    }

    private func create(_ number: UInt64, in directory: OwnedDescriptor) throws(Errno) -> Segment {
        _ = try fileSystem.open(.number(number), in: directory.file, for: .creating)
        do throws(Errno) {
            let file = OwnedDescriptor(try fileSystem.open(.number(number), in: directory.file, for: .updating))
            let salt = Simulation.randomNumber()
            let header = SegmentFormat.Header(salt: salt, settled: SegmentFormat.start, boot: fileSystem.boot)
            let segment = Segment(number, file, header, in: fileSystem)
            // The header last: with it, others may take the segment for that of a process that has ended.
            guard try claim(segment) else { throw .exists }
            do throws(Errno) {
                try fileSystem.write(
                    SegmentFormat.headers(of: number, salt: salt, boot: header.boot), to: file.file, at: 0)
            } catch {
                release(segment)
                throw error
            }
            keep(segment)
            state.withLock { $0.noteChange(of: Self.names) }
            return segment
        } catch {
            if error != .exists { try? fileSystem.remove(.number(number), in: directory.file, directory: false) }
            throw error
        }
    }

    /// Returns when a segment, and the names that lead to it in the directory of the entries, are on stable storage.
    func syncWithName(_ segment: Segment, since first: Int? = nil) throws(Errno) {
        try segment.sync(since: first)
        if segment.isNameSynced.isSet { return }
        if let directory = try directory() { try fileSystem.sync(directory.file) }
        try fileSystem.sync(entries.file)
        segment.isNameSynced.set()
    }

    /// Deletes a segment whose lock this process holds.
    func remove(_ segment: Segment) throws(Errno) {
        guard let directory = try directory() else { return }
        try fileSystem.removeRegular(.number(segment.number), in: directory.file)
        forget(segment.number)
    }

    /// Notes that a segment has no name any more.
    func forget(_ number: UInt64) {
        dead.forget(number)
        let released = state.withLock { state in
            state.unsynced[number] = nil
            state.noteChange(of: Self.names)
            return state.open.removeValue(forKey: number)
        }
        _ = released
    }

    /// Closes segments that other processes have deleted, so that their bytes are free. O(segments).
    func closeDeleted() throws(Errno) {
        // First: one that is created from here on is not taken for deleted.
        let open = state.withLock { state in state.open.keys.filter { !state.claimed.contains($0) }.sorted() }
        if !open.isEmpty { close(open, unlessIn: Set(try numbers())) }
    }

    private func close(_ open: [UInt64], unlessIn existing: Set<UInt64>) {
        let released = state.withLock { state in
            open.filter { !existing.contains($0) && !state.claimed.contains($0) }.map { number in
                state.unsynced[number] = nil
                dead.forget(number)
                return state.open.removeValue(forKey: number)
            }
        }
        _ = released
    }

    /// Identifies the current boot of the system. 0: unknown.
    var boot: UInt64 { fileSystem.boot }

    /// True when the directory has segments, or had.
    var exist: Bool {
        do throws(Errno) { return try directory() != nil } catch { return true }
    }

    /// The numbers of all segments, in no particular order.
    func numbers() throws(Errno) -> [UInt64] {
        do throws(Errno) {
            return try inDirectory { directory throws(Errno) in
                try fileSystem.numbers(.regular, in: directory.file).filter { $0 > 0 && $0 <= Place.lastSegment }
            }
        } catch {
            if error == .noEntry { return [] }
            throw error
        }
    }
}

/// Ownership.
extension SegmentTable {
    /// Takes the lock of a segment; false when another process, or a part of this one, has it, or the segment has been
    /// deleted.
    func claim(_ segment: Segment) throws(Errno) -> Bool {
        guard state.withLock({ $0.claimed.insert(segment.number).inserted }) else { return false }
        do throws(Errno) {
            if try fileSystem.lock(segment.file.file) {
                if try isThere(segment) { return true }
                fileSystem.unlock(segment.file.file)
            }
        } catch {
            fileSystem.unlock(segment.file.file)
            forgetClaim(segment)
            throw error
        }
        forgetClaim(segment)
        return false
    }

    private func isThere(_ segment: Segment) throws(Errno) -> Bool {
        guard let directory = try directory() else { return false }
        do throws(Errno) {
            let named = try fileSystem.status(of: .number(segment.number), in: directory.file).identity
            return try fileSystem.status(of: segment.file.file).identity == named
        } catch {
            guard error == .noEntry else { throw error }
            return false
        }
    }

    func release(_ segment: Segment) {
        fileSystem.unlock(segment.file.file)
        forgetClaim(segment)
    }

    /// Keeps entries of segments from being marked in the background, until `letGo`. Removals mark them all the same.
    func hold(_ numbers: some Sequence<UInt64>) {
        state.withLock { $0.held.formUnion(numbers) }
    }

    func letGo() {
        state.withLock { $0.held = [] }
    }

    /// True while this process has the lock of a segment.
    func isClaimed(_ number: UInt64) -> Bool { state.withLock { $0.claimed.contains(number) } }

    /// The segments that are held.
    var held: Set<UInt64> { state.withLock { $0.held } }

    private func forgetClaim(_ segment: Segment) {
        state.withLock { _ = $0.claimed.remove(segment.number) }
    }
}
