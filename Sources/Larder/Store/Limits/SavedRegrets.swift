import LarderFiles

/// The regrets of the evictor, and the file in which they outlive the session.
///
/// The file is read before the first eviction, and again when another process has replaced it; it is written after a
/// batch of evictions, and at the end of the session. Without it, or if it is damaged, learning begins anew. Its
/// content is a sequence of little-endian numbers of 8 bytes:
///
///     "LARDEREV"  seed  bias  numbers of the history (3)  cells of the history, two in each number  XXH64 of all that
///
/// Keys are known by a hash with the seed, which is random.
final class SavedRegrets: StoreOwner {
    fileprivate static let magic = UInt64(bigEndian: 0x4C41_5244_4552_4556)
    fileprivate static let headLength = 6

    let context: StoreContext
    private let state = Lock(State())

    fileprivate struct State {
        var regrets = Regrets()
        var seed = HashSeed.fixed.withLock { $0 } ?? Simulation.randomNumber()
        /// The file that was read or written last, and when.
        var known: Version?
        var hasChanged = false
        /// Evictions since the last save.
        var unsaved = 0

        func fingerprint(_ key: Key) -> UInt32 { UInt32(truncatingIfNeeded: key.hash(seed: seed)) }
    }

    fileprivate struct Version: Equatable {
        let identity: FileIdentity
        let changed: Int64

        init(_ status: FileStatus) { (identity, changed) = (status.identity, status.changed) }
    }

    init(_ context: StoreContext) {
        self.context = context
    }

    /// True when a file begins like one of these.
    static func isBegun(_ bytes: [UInt8]) -> Bool {
        bytes.withBytes { $0.count >= 8 && UInt64(littleEndian: $0.loadUnaligned(as: UInt64.self)) == magic }
    }

    /// A newcomer needs more hits than `threshold`, and so many protected entries are to make room for others.
    var lessons: (threshold: Int, demotions: Int) { state.withLock { ($0.regrets.threshold, $0.regrets.returns) } }

    func noteDemoted(_ count: Int) { state.withLock { $0.regrets.takeReturns(count) } }

    /// Looks up the entries that were stored since the last call. Those that were evicted not long ago get a hit, and
    /// are returned. O(new entries), O(history) where another process has evicted.
    func welcomeNew() -> [IndexEntry] {
        state.withLock { state in
            readIfNew(&state)
            let remembersNothing = state.regrets.history.bytes == 0
            var remembered: [IndexEntry] = []
            index.forEachShard { shard in
                remembered += shard.table.welcomeNew { key in
                    !remembersNothing && state.regrets.noteStored(state.fingerprint(key)) > 0
                }
            }
            if !remembered.isEmpty { state.hasChanged = true }
            return remembered
        }
    }

    /// Remembers entries that a full cache has evicted. O(their number).
    func remember(_ evicted: [IndexEntry]) {
        let count = index.totals.count + evicted.count
        state.withLock { state in
            for entry in evicted {
                let way = entry.rank.part == .window ? EvictionHistory.Way.refused : .givenUp
                state.regrets.noteEvicted(state.fingerprint(entry.key), way, entries: count)
            }
            state.hasChanged = true
            state.unsaved += evicted.count
        }
    }

    /// Saves what has changed after as many evictions as a cache at its limit makes at once.
    func saveIfDue() {
        let batch = index.totals.count / 20
        if state.withLock({ $0.unsaved >= batch }) { save() }
    }

    /// Saves what has changed, unless another process evicts now. A failure loses it, and nothing else.
    func save() {
        if fileSystem.isReadOnly || !state.withLock({ $0.hasChanged }) { return }
        disk.others.object.membership.perform(.evict) {
            state.withLock { state in
                state.unsaved = 0
                let bytes = state.bytes
                let version = disk.runAnyway { directory in directory.flatMap { try? write(bytes, in: $0.root) } }
                guard let version else { return }
                state.known = version
                state.hasChanged = false
            }
        }
    }

    private func write(_ bytes: [UInt8], in root: OwnedDescriptor) throws(Errno) -> Version {
        let (temporary, name) = (DirectoryLayout.temporaryEvictions.name, DirectoryLayout.evictions.name)
        guard try isReplaceable(name, in: root) else { throw .exists }
        let file = try fileSystem.createAnew(temporary, in: root.file)
        do throws(Errno) {
            try fileSystem.write(bytes, to: file, at: 0)
            try fileSystem.rename(temporary, in: root.file, to: name, in: root.file)
            return Version(try fileSystem.status(of: file))
        } catch {
            try? fileSystem.remove(temporary, in: root.file, directory: false)
            throw error
        }
    }

    /// False when the name belongs to something that is not ours.
    private func isReplaceable(_ name: FileName, in root: OwnedDescriptor) throws(Errno) -> Bool {
        do throws(Errno) {
            guard let (file, size) = try fileSystem.openRegular(name, in: root.file) else { return false }
            var bytes = [UInt8](repeating: 0, count: min(size, 8))
            _ = try fileSystem.read(file.file, at: 0, into: &bytes)
            return bytes.allSatisfy { $0 == 0 } || Self.isBegun(bytes)
        } catch {
            if error == .noEntry { return true }
            throw error
        }
    }

    /// Reads what another session has learned. What this one has learned since counts for more.
    private func readIfNew(_ state: inout State) {
        if state.hasChanged { return }
        // A longer file remembers more than a cache of this size would.
        let longest = 1024 + 32 * index.totals.count
        let found = disk.runAnyway { directory -> (Version, bytes: [UInt8])? in
            guard let root = directory?.root else { return nil }
            let name = DirectoryLayout.evictions.name
            do throws(Errno) {
                let version = Version(try fileSystem.status(of: name, in: root.file))
                guard version != state.known, let (file, size) = try fileSystem.openRegular(name, in: root.file) else {
                    return nil
                }
                var bytes = [UInt8](repeating: 0, count: min(size, longest))
                let count = try fileSystem.read(file.file, at: 0, into: &bytes)
                return (version, count == size ? bytes : [])
            } catch {
                // There is none, or it cannot be read.
                return nil
            }
        }
        guard let found else { return }
        state.known = found.0
        state.take(found.bytes)
    }
}

extension SavedRegrets.State {
    fileprivate var bytes: [UInt8] {
        let (numbers, cells) = regrets.history.saved
        var words = [SavedRegrets.magic, seed, regrets.bias.bitPattern] + numbers
        for pair in stride(from: 0, to: cells.count, by: 2) {
            words.append(UInt64(cells[pair]) | UInt64(cells[pair + 1]) << 32)
        }
        var buffer = ByteBuffer(reserving: words.count * 8 + 8)
        for word in words { buffer.append(littleEndian: word) }
        buffer.append(littleEndian: XXH64.hash(buffer.bytes))
        return Array(buffer.bytes)
    }

    /// Takes over what a file says, unless it is damaged.
    fileprivate mutating func take(_ bytes: [UInt8]) {
        var words: [UInt64] = []
        var check: UInt64 = 0
        bytes.withBytes { bytes in
            guard bytes.count % 8 == 0, bytes.count >= 8 else { return }
            words = stride(from: 0, to: bytes.count, by: 8).map {
                UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: $0, as: UInt64.self))
            }
            check = XXH64.hash(bytes.part(0..<bytes.count - 8))
        }
        guard words.popLast() == check, words.count >= SavedRegrets.headLength, words[0] == SavedRegrets.magic else {
            return
        }
        let cells = ContiguousArray(
            words[SavedRegrets.headLength...].flatMap { [UInt32(truncatingIfNeeded: $0), UInt32($0 >> 32)] })
        guard let history = EvictionHistory(numbers: Array(words[3..<SavedRegrets.headLength]), cells: cells),
            let known = Regrets(bias: Double(bitPattern: words[2]), history)
        else { return }
        (regrets, seed) = (known, words[1])
    }
}
