import LarderFiles

/// The groups of the saved index that may not have been loaded. Whether one has is read without a lock.
final class ColdGroups: Sendable {
    struct State: Sendable {
        fileprivate(set) var saved: SavedGroups
        /// The sums over the groups that are not loaded.
        fileprivate(set) var totals: SavedTotals
        /// False while the sums do not include the journal lines that wait.
        fileprivate(set) var areTotalsExact: Bool
        fileprivate var left: Int
    }

    let hash: GroupHash
    /// The time of the opening: no entry was used later.
    let opening: Timestamp
    /// Returns the life of an expired entry that its file knows and the index does not.
    let longerLife: @Sendable (IndexEntry) -> Result<Life?, Errno>
    private let loaded: FlagArray
    /// Held while a group is loaded, so it is parsed once. Taken before the lock of a shard.
    private let state: Lock<State>

    /// `totals`: the sums at the end of the last session, if they are known.
    init(
        _ saved: SavedGroups, totals: SavedTotals?, at opening: Timestamp,
        longerLife: @escaping @Sendable (IndexEntry) -> Result<Life?, Errno>
    ) {
        self.longerLife = longerLife
        hash = saved.table.hash
        self.opening = opening
        loaded = FlagArray(count: hash.count)
        let areExact = totals != nil || saved.lines.count == 0
        state = Lock(
            State(
                saved: saved, totals: totals ?? saved.table.totals, areTotalsExact: areExact, left: hash.count))
    }

    func isLoaded(_ group: Int) -> Bool { loaded.isSet(group) }

    func withState<Result>(_ body: (inout State) -> Result) -> Result { state.withLock(body) }

    /// The groups that are not loaded and that `isWanted` accepts.
    func unloaded(where isWanted: (SavedGroups, Int) -> Bool = { _, _ in true }) -> [Int] {
        state.withLock { state in
            (0..<hash.count).filter { !loaded.isSet($0) && isWanted(state.saved, $0) }
        }
    }

    /// Notes that another manifest has replaced the one on disk, and covers all lines.
    func move(to manifest: SavedGroups.Manifest) {
        state.withLock { state in
            state.saved.move(to: manifest)
            if state.areTotalsExact { return }
            state.totals = SavedTotals(namespaces: nil)
            for group in 0..<hash.count where !loaded.isSet(group) {
                state.totals.whole.add(manifest.table.groups[group].totals)
            }
        }
    }

    /// Notes that all groups with waiting lines have been loaded: the sums of the others are those of the manifest.
    func noteChangesLoaded() {
        state.withLock { $0.areTotalsExact = true }
    }

    /// Notes that a group has been loaded, with these entries. Returns true for the last group. Call it with the state.
    func note(_ group: Int, _ content: SavedGroups.Content, _ added: SavedTotals, _ state: inout State) -> Bool {
        state.totals.add(state.areTotalsExact ? added : content.saved, times: -1)
        state.left -= 1
        if state.left == 0 { state.totals = SavedTotals() }
        loaded.set(group)
        return state.left == 0
    }
}
