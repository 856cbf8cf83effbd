import LarderFiles

/// Loading. The index of a large cache is read group by group: each group when one of its keys is first touched.
extension Index {
    /// Loads the group of a key, unless it is loaded. Every method that reads or changes the entry of a key calls it
    /// first.
    ///
    /// A damaged group makes the index provisional before this returns. So call it before you ask whether the index is
    /// provisional.
    @inline(__always)
    func load(_ key: Key) {
        if hasUnloaded.isSet { loadGroup(of: key) }
    }

    @inline(never)
    private func loadGroup(of key: Key) {
        guard let groups = groups(of: key), case let group = groups.hash.group(of: key), !groups.isLoaded(group)
        else { return }
        load(group, of: groups)
    }

    /// Loads all groups, one after another. Other threads use the index in between.
    func loadAll() {
        load { _, _ in true }
    }

    /// The same for groups in which an entry may have expired. Stops early when `mayLoad` returns false.
    func loadExpired(at now: Timestamp, while mayLoad: () -> Bool = { true }) {
        load(while: mayLoad) { saved, group in saved.mayHaveExpired(group, at: now) }
    }

    /// True when waiting lines may supersede files that nobody else deletes.
    var mayOweFiles: Bool { unloaded?.mayOweFiles ?? false }

    /// The same for groups with waiting journal lines.
    func loadChanged() {
        let groups = unloaded
        load { saved, group in saved.lines.hasLines(group) }
        groups?.noteChangesLoaded()
    }

    /// Loads up to `limit` of the groups that `isWanted` accepts, from a position that depends on `start`. Returns
    /// false when none are left.
    func loadSome(
        _ limit: Int, from start: UInt64 = 0, _ isWanted: (SavedGroups, Int) -> Bool = { _, _ in true }
    ) -> Bool {
        guard let groups = unloaded else { return false }
        let wanted = groups.unloaded(where: isWanted)
        let first = Int(start % UInt64(groups.hash.count))
        for group in (wanted.filter { $0 >= first } + wanted.filter { $0 < first }).prefix(limit) {
            load(group, of: groups)
        }
        return wanted.count > limit
    }

    /// Loads the groups that may have a fresh entry.
    func loadFresh(at now: Timestamp) {
        load { saved, group in
            !saved.table.groups[group].isOver(at: now) || saved.lines.hasLines(group)
        }
    }

    /// Loads all groups before a scope is cleared or expired. Clearing everything needs none, and neither does a scope
    /// whose namespace is empty.
    func loadAll(for scope: ClearScope) {
        if mustLoad(for: scope) { loadAll() }
    }

    /// True when entries in a scope may not be loaded.
    func mustLoad(for scope: ClearScope) -> Bool {
        hasUnloaded.isSet && scope != .everything && totals(of: scope.namespace ?? .none).count > 0
    }

    private func load(while mayLoad: () -> Bool = { true }, _ isWanted: (SavedGroups, Int) -> Bool) {
        guard let groups = unloaded else { return }
        for group in groups.unloaded(where: isWanted) {
            guard mayLoad() else { return }
            load(group, of: groups)
        }
    }

    /// Loads one group, unless it is loaded. O(its entries).
    func load(_ group: Int, of groups: ColdGroups) {
        groups.withState { state in
            if groups.isLoaded(group) { return }
            let content = state.saved.content(of: group)
            // First, so that a thread which sees the group loaded also sees the index provisional.
            if content.isDamaged, unloaded === groups { damageFound() }
            insert(content, group, of: groups, &state)
        }
    }

    private func insert(
        _ content: SavedGroups.Content, _ group: Int, of groups: ColdGroups, _ state: inout ColdGroups.State
    ) {
        var parts = Array(repeating: [IndexEntry](), count: Self.shardCount)
        for var entry in content.entries {
            if entry.isOver(at: groups.opening) {
                switch groups.longerLife(entry) {
                case .success(let life?):
                    entry.life = life
                    unrecorded.set()
                case .success(nil): break
                // The entry must not be removed: the recovery reads the file again.
                case .failure: if unloaded === groups { damageFound() }
                }
            }
            parts[entry.key.shard].append(entry)
        }
        var dead = Array(repeating: [Key: UInt64](), count: Self.shardCount)
        for (key, number) in content.shard.tombstones { dead[key.shard][key] = number }
        var obsolete = Array(repeating: [Debts.File](), count: Self.shardCount)
        if state.saved.isUnsettled {
            for file in content.supersededFiles { obsolete[file.shard].append(file) }
        }
        var added = SavedTotals()
        for position in 0..<Self.shardCount
        where !parts[position].isEmpty || !dead[position].isEmpty || !obsolete[position].isEmpty {
            withoutSums(at: position, of: groups) { shard in
                added.add(shard.add(parts[position], dead[position], at: groups.opening))
                for file in obsolete[position] { shard.debts.add(file) }
            }
        }
        noteLoaded(group, content, added, of: groups, &state)
    }
}

/// Saving.
extension Index {
    /// The groups at one moment, and which of them were loaded.
    struct Frozen {
        let groups: ColdGroups
        let saved: SavedGroups
        let isLoaded: [Bool]
        /// The sums over the groups that are not loaded.
        let totals: SavedTotals
        let areTotalsExact: Bool
    }

    /// Nil when all are loaded. O(groups).
    func freeze() -> Frozen? {
        guard let groups = unloaded else { return nil }
        return groups.withState { state in
            Frozen(
                groups: groups, saved: state.saved, isLoaded: (0..<groups.hash.count).map { groups.isLoaded($0) },
                totals: state.totals, areTotalsExact: state.areTotalsExact)
        }
    }

    /// Notes that a manifest has replaced the one from which the frozen groups were read. One with other groups is
    /// ignored: the old file stays open.
    func move(_ frozen: Frozen, to manifest: SavedGroups.Manifest) {
        if manifest.table.hash == frozen.groups.hash { frozen.groups.move(to: manifest) }
    }

    /// Calls `body` with the slot and the entry of some slots; false past the last slot. O(limit).
    func forEachEntry(of shard: Int, from start: Int, _ limit: Int, _ body: (Int, IndexEntry) -> Void) -> Bool {
        withShard(at: shard) { $0.table.forEachEntry(from: start, limit, body) }
    }

    /// Copies the entries in some slots, without those that were removed meanwhile.
    func entries(at slots: [Int], of shard: Int) -> [IndexEntry] {
        withShard(at: shard) { shard in slots.compactMap { shard.table.entry(at: $0) } }
    }
}
