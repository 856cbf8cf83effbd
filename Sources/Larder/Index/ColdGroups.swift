import LarderFiles

/// The groups of the saved index, from the opening until all are loaded. `isLoaded` does not wait while a group is
/// read.
final class ColdGroups: Sendable {
    struct State: Sendable {
        fileprivate(set) var saved: SavedGroups
        /// The sums over the groups that are not loaded.
        fileprivate(set) var totals: SavedTotals
        /// False while the sums leave out the waiting journal lines.
        fileprivate(set) var areTotalsExact: Bool
        fileprivate var left: Int
    }

    let hash: GroupHash
    /// The time of the opening. A saved use does not count as later.
    let opening: Timestamp
    /// Returns the life that the file of an expired entry knows and the index does not.
    let longerLife: @Sendable (IndexEntry) -> Result<Life?, Errno>
    private let loaded: FlagArray
    /// Held while a group is loaded, so that it is parsed only once. Taken before the lock of a shard.
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

    /// True when waiting lines may supersede files that nobody else deletes.
    var mayOweFiles: Bool { state.withLock { $0.saved.isUnsettled && $0.saved.lines.count > 0 } }

    /// The groups that are not loaded and that `isWanted` accepts.
    func unloaded(where isWanted: (SavedGroups, Int) -> Bool = { _, _ in true }) -> [Int] {
        state.withLock { state in
            (0..<hash.count).filter { !loaded.isSet($0) && isWanted(state.saved, $0) }
        }
    }

    /// Notes that a new manifest has replaced the one on disk. It covers all waiting lines.
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

    /// Notes that all groups with waiting lines have been loaded. For the others, the sums in the manifest are exact.
    func noteChangesLoaded() {
        state.withLock { $0.areTotalsExact = true }
    }

    /// Notes that a group has been loaded, with these entries. Returns true for the last group. Call it with the state
    /// locked.
    func note(_ group: Int, _ content: SavedGroups.Content, _ added: SavedTotals, _ state: inout State) -> Bool {
        state.totals.add(state.areTotalsExact ? added : content.saved, times: -1)
        state.left -= 1
        if state.left == 0 { state.totals = SavedTotals() }
        loaded.set(group)
        return state.left == 0
    }
}
