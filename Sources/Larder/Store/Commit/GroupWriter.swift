import LarderFiles

/// Writes the entries of a manifest, group by group. A group that is not loaded comes from its old lines and the
/// journal lines that wait for it. Any other comes from the index.
///
/// In memory at a time: the lines of one group, and eight bytes for each loaded entry.
struct GroupWriter {
    /// The number of slots looked at, while the writers of a shard wait.
    private static let slice = 256

    /// Why a save is given up.
    enum Failure: Error {
        case io(Errno)
        /// A group cannot be copied. It is loaded now.
        case damaged
    }

    private let index: Index
    /// The groups on disk when the save began; nil: all are loaded.
    private let old: Index.Frozen?
    private let hash: GroupHash
    private(set) var table: GroupTable
    private var totals: SavedTotals

    /// `start`: the offset of the first group. Call it once the journal of the save has begun: what changes from here
    /// on is in it.
    init(_ index: Index, generation: UInt64, start: Int, entriesPerGroup: Int) {
        self.index = index
        old = index.freeze()
        let seed = old?.saved.table.seed ?? Simulation.randomNumber()
        let count = GroupTable.groupCount(for: index.totals.count, perGroup: entriesPerGroup)
        hash = GroupHash(seed: seed, count: count)
        totals = old?.totals ?? SavedTotals()
        table = GroupTable(generation: generation, seed: seed, start: start, groups: [])
        table.groups.reserveCapacity(count)
    }

    var hasUnloaded: Bool { old != nil }

    /// From here on, the groups that are not loaded are read from the new manifest.
    func move(to file: OwnedDescriptor) {
        if let old { index.move(old, to: SavedGroups.Manifest(file, table)) }
    }

    /// Passes the bytes of one group after another to `write`.
    mutating func write(_ write: (UnsafeRawBufferPointer) throws(Errno) -> Void) throws(Failure) {
        let oldCount = old?.saved.table.groups.count ?? hash.count
        let parts = min(oldCount, hash.count)
        let loaded = LoadedSlots(index, old, hash, slice: Self.slice)
        var next = 0
        for part in 0..<parts {
            let groups = part * (hash.count / parts)..<(part + 1) * (hash.count / parts)
            let olds = part * (oldCount / parts)..<(part + 1) * (oldCount / parts)
            if let bytes = try unchanged(olds, groups) {
                table.groups.append(old!.saved.table.groups[olds.lowerBound])
                do { try bytes.withBytes(write) } catch { throw .io(error) }
                continue
            }
            var entries = Array(repeating: [IndexEntry](), count: groups.count)
            for group in olds { try add(group, to: &entries, from: groups.lowerBound) }
            while let slots = loaded.slots(of: groups, from: &next) {
                for entry in index.entries(at: slots.slots, of: slots.shard) {
                    // A slot may have been reused for another key, which the journal has.
                    guard case let group = hash.group(of: entry), groups.contains(group) else { continue }
                    entries[group - groups.lowerBound].append(entry)
                    totals.add(entry)
                }
            }
            for group in entries { try print(group, write) }
        }
        table.namespaces = totals.bounded.namespaces
    }

    /// The bytes of a group that is not loaded and for which no line waits, if groups stay the same.
    private func unchanged(_ olds: Range<Int>, _ groups: Range<Int>) throws(Failure) -> [UInt8]? {
        guard let old, olds.count == 1, groups.count == 1, case let group = olds.lowerBound, !old.isLoaded[group],
            !old.saved.lines.hasLines(group), old.saved.cleared.isEmpty
        else { return nil }
        guard let bytes = old.saved.bytes(of: group) else { throw damage(in: group, old) }
        return bytes
    }

    private func damage(in group: Int, _ old: Index.Frozen) -> Failure {
        index.load(group, of: old.groups)
        return .damaged
    }

    /// Adds the entries of a group that is not loaded.
    private mutating func add(_ group: Int, to entries: inout [[IndexEntry]], from first: Int) throws(Failure) {
        guard let old, !old.isLoaded[group] else { return }
        let content = old.saved.content(of: group)
        if content.isDamaged { throw damage(in: group, old) }
        if !old.areTotalsExact { totals.add(content.saved, times: -1) }
        for entry in content.entries {
            entries[hash.group(of: entry) - first].append(entry)
            if !old.areTotalsExact { totals.add(entry) }
        }
    }

    private mutating func print(
        _ entries: [IndexEntry], _ write: (UnsafeRawBufferPointer) throws(Errno) -> Void
    ) throws(Failure) {
        var printer = RecordPrinter(reserving: entries.count * 200)
        var group = GroupTable.Group()
        var latest = Timestamp(milliseconds: .min)
        for entry in entries {
            JSONManifest.append(entry, to: &printer)
            group.totals.add(entry)
            if !entry.life.isForever {
                group.earliest = min(group.earliest ?? entry.keptUntil, entry.keptUntil)
            }
            latest = max(latest, entry.life.expires)
        }
        group.latest = entries.isEmpty || latest.milliseconds == Life.unlimited ? nil : latest
        group.length = printer.count
        group.check = printer.withBytes { XXH64.hash($0) }
        table.groups.append(group)
        do throws(Errno) { try printer.withBytes(write) } catch { throw .io(error) }
    }
}

/// The slots of the entries that a save finds in the index, sorted by group.
private struct LoadedSlots {
    /// A group, a shard and a slot, in the bits from the top down.
    private let places: [UInt64]
    private static let groupShift: UInt64 = 40
    private static let shardShift: UInt64 = 32

    /// O(slots). Entries of groups that were not loaded when the save began are left out: their old lines are copied.
    init(_ index: Index, _ old: Index.Frozen?, _ hash: GroupHash, slice: Int) {
        var places: [UInt64] = []
        var counts = Array(repeating: 0, count: hash.count + 1)
        for shard in 0..<Index.shardCount {
            var start = 0
            // In slices: writers wait for one.
            while index.forEachEntry(
                of: shard, from: start, slice,
                { slot, entry in
                    if let old, !old.isLoaded[old.groups.hash.group(of: entry)] { return }
                    let group = hash.group(of: entry)
                    counts[group + 1] += 1
                    places.append(UInt64(group) << Self.groupShift | UInt64(shard) << Self.shardShift | UInt64(slot))
                })
            { start += slice }
        }
        for group in 1..<counts.count { counts[group] += counts[group - 1] }
        // Within a group the shards stay in order.
        var sorted = Array(repeating: UInt64(0), count: places.count)
        for place in places {
            let group = Int(place >> Self.groupShift)
            sorted[counts[group]] = place
            counts[group] += 1
        }
        self.places = sorted
    }

    /// Returns the next slots of one shard, if they belong to `groups`. Call it for ascending groups.
    func slots(of groups: Range<Int>, from next: inout Int) -> (shard: Int, slots: [Int])? {
        guard next < places.count, groups.contains(Int(places[next] >> Self.groupShift)) else { return nil }
        let owner = places[next] >> Self.shardShift
        var slots: [Int] = []
        while next < places.count, places[next] >> Self.shardShift == owner {
            slots.append(Int(UInt32(truncatingIfNeeded: places[next])))
            next += 1
        }
        return (Int(owner) % Index.shardCount, slots)
    }
}
