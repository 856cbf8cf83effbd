import LarderFiles

/// Moving.
extension SegmentCleaner {
    /// Entries that are copied or recorded while changes of keys in their shard wait.
    private static let batch = 32
    /// Parts of a slice between which calls of the process that share a stripe go on.
    private static let partsAlone = 8

    /// The copy of a value. Until it is recorded it waits, like any obsolete file, to be deleted, so a removal deletes
    /// it, too.
    private struct Copy {
        let key: Key
        let old: FileID
        var entry: IndexEntry
        /// The ticket of its segment from before it was written.
        let begun: Int
    }

    /// Copies that have been made, and tickets for the records of those that are entries.
    private struct Moves {
        var copies: [Copy] = []
        var tickets: [CommitQueue.Ticket] = []
    }

    /// Moves those of some entries that are still in use. Notes when some have to stay for now.
    func move(_ found: [IndexEntry], of work: inout Work) throws(CacheError) {
        guard let first = found.map(\.file.number).min() else { return }
        // First: a removal that this process does not know yet has a higher number, and is not forgotten.
        info.beginMove(from: first)
        // Other processes delete the tombstones that cover the old copies when the announced move ends.
        defer { info.endMove() }
        let segments = work.directory.segments
        segments.hold([work.segment.number])
        var moves = Moves()
        defer { work.directory.movedWriter.endAll() }
        var failure: CacheError?
        do throws(CacheError) {
            try moveByStripes(found, of: &work, &moves)
        } catch {
            failure = error
        }
        do throws(CacheError) {
            try info.wait(for: moves.tickets)
        } catch {
            // The index would mention the old copies after a power cut.
            noteUnsyncedMoves()
            throw error
        }
        segments.letGo()
        // The old copies, and new ones that were made in vain.
        for shard in Set(moves.copies.map(\.key.shard)).sorted() { reaper.deleteObsolete(shard: shard) }
        if let failure { throw failure }
    }

    /// Another process that removes a value does not know of its copy: it waits until that is recorded.
    private func moveByStripes(
        _ found: [IndexEntry], of work: inout Work, _ moves: inout Moves
    ) throws(CacheError) {
        let membership = disk.others.object.membership
        let stripes = Dictionary(grouping: found, by: \.key.stripe).sorted { $0.key < $1.key }
        // Calls of this process wait for a stripe, too. While it is alone, several stripes share one sync; others may
        // join meanwhile.
        let length = disk.isAlone ? max(1, stripes.count / Self.partsAlone) : 1
        for start in stride(from: 0, to: stripes.count, by: length) {
            let part = stripes[start..<min(start + length, stripes.count)]
            var locked: [(stripe: Int, entries: [IndexEntry])] = []
            defer { for (stripe, _) in locked { membership.unlockForLong(stripe: stripe) } }
            for (stripe, entries) in part {
                if membership.tryLockForLong(stripe: stripe) {
                    locked.append((stripe, entries))
                } else {
                    work.isComplete = false
                }
            }
            try moveFree(locked.flatMap(\.entries), of: &work, &moves)
        }
    }

    /// Copies entries, then records the copies, which are on stable storage by then.
    private func moveFree(_ found: [IndexEntry], of work: inout Work, _ moves: inout Moves) throws(CacheError) {
        let begin = moves.copies.count
        for (shard, entries) in Dictionary(grouping: found, by: \.key.shard).inOrder(of: { $0.key }) {
            for start in stride(from: 0, to: entries.count, by: Self.batch) {
                try run(shard, of: &work) { work throws(CacheError) in
                    try copy(entries[start...].prefix(Self.batch), of: &work, &moves)
                }
            }
        }
        // Outside of all locks.
        let copies = moves.copies[begin...]
        let segments = Dictionary(grouping: copies, by: \.entry.file.place.segment)
        try translating("sync a segment", at: path) { () throws(Errno) in
            for (number, copies) in segments.inOrder(of: { $0.key }) {
                let begun = copies.lazy.map(\.begun).min() ?? 0
                try work.directory.sync(work.directory.segments.segment(number), since: begun)
            }
        }
        for (shard, copies) in Dictionary(grouping: copies, by: \.key.shard).inOrder(of: { $0.key }) {
            for start in stride(from: 0, to: copies.count, by: Self.batch) {
                try run(shard, of: &work) { work throws(CacheError) in
                    try record(copies[start...].prefix(Self.batch), of: &work, &moves)
                }
            }
        }
    }

    /// Runs `body` with the stripe of a shard held, unless the index or the directory was replaced, or is in doubt.
    private func run(
        _ shard: Int, of work: inout Work, _ body: (inout Work) throws(CacheError) -> Void
    ) throws(CacheError) {
        if context.isEnding.isSet { return work.isComplete = false }
        try disk.run(shard: shard) { directory throws(CacheError) in
            guard isCurrent(work, directory) else { return work.isComplete = false }
            try disk.followOrThrow()
            try info.removeShutdownMarker()
            try body(&work)
            // Damage may have been found while a part of the index was loaded.
            if !isCurrent(work, directory) { work.isComplete = false }
        }
        pace.step()
    }

    private func copy(
        _ entries: some Sequence<IndexEntry>, of work: inout Work, _ moves: inout Moves
    ) throws(CacheError) {
        let directory = work.directory
        for entry in entries {
            let key = entry.key
            guard let current = index.entry(key), current.file == entry.file else { continue }
            switch directory.payload(of: current) {
            case .value(let payload):
                let copied = try payload.withBytes { bytes throws(CacheError) in
                    try writer.copy(current, bytes, in: directory)
                }
                guard let copied else { return work.isComplete = false }
                let file = copied.entry.file
                directory.segments.hold([file.place.segment])
                index.withShard(of: key) { $0.markObsolete(file, of: key) }
                moves.copies.append(
                    Copy(key: key, old: current.file, entry: copied.entry, begun: copied.begun))
            case .gone, .damaged:
                // The next read finds that.
                work.damaged.insert(current.file)
            case .failed(let error):
                reporter.report(error)
                work.isComplete = false
            }
        }
    }

    /// Records and publishes the places of copies whose values are still there.
    private func record(_ copies: ArraySlice<Copy>, of work: inout Work, _ moves: inout Moves) throws(CacheError) {
        let directory = work.directory
        var changes = Changes()
        var moved: [Copy] = []
        for var copy in copies {
            guard let current = index.entry(copy.key), current.file == copy.old else { continue }
            guard isThere(copy, in: directory) else {
                work.isComplete = false
                continue
            }
            if current.change != copy.entry.change || current.life != copy.entry.life {
                try translating("move a value", at: path) { () throws(Errno) in
                    _ = try directory.writeSlot(
                        current.life, current.change, of: copy.entry, isPowerSafe: settings.isPowerSafe)
                }
            }
            let file = copy.entry.file
            copy.entry = current
            copy.entry.file = file
            changes.append(.set(copy.entry))
            moved.append(copy)
        }
        if moved.isEmpty { return }
        let ticket = try info.commit(changes, mustSync: true) {
            for copy in moved {
                index.withShard(of: copy.key) { $0.move(copy.entry, from: copy.old, of: copy.key) }
            }
        }
        if let ticket { moves.tickets.append(ticket) }
        let bytes = moved.reduce(0) { $0 + $1.entry.size }
        reporter.count { $0.segments.movedBytes += bytes }
    }

    /// False when a removal that failed has deleted the copy, or may have.
    private func isThere(_ copy: Copy, in directory: StoreDirectory) -> Bool {
        let isWaiting = index.withShard(of: copy.key) { $0.debts.files(of: copy.key) }.contains {
            $0.file == copy.entry.file
        }
        do throws(Errno) {
            if isWaiting { try directory.requireFile(of: copy.entry) }
            return isWaiting
        } catch {
            return false
        }
    }
}

/// Where there is no room for copies.
extension SegmentCleaner {
    /// Removes those of some entries that are still in use: where the disk is full, evicting single ones frees nothing.
    func evict(_ found: [IndexEntry], of work: inout Work) throws(CacheError) {
        for (shard, entries) in Dictionary(grouping: found, by: \.key.shard).inOrder(of: { $0.key }) {
            var evicted: [IndexEntry] = []
            try run(shard, of: &work) { _ throws(CacheError) in
                evicted = entries.compactMap { found in
                    index.entry(found.key).flatMap { $0.file == found.file ? $0 : nil }
                }
                if evicted.isEmpty { return }
                _ = try info.commit(Changes(removing: evicted), orElse: .publishingAlone) {
                    _ = index.change(at: shard, .evictedOnDisk) { [evicted] shard in
                        for entry in evicted { shard.removeWithFile(entry) }
                        return evicted
                    }
                }
            }
            if evicted.isEmpty { continue }
            reaper.deleteObsolete(shard: shard)
            reporter.count { [count = evicted.count] in $0.evictions.add(count, for: .freeSpace) }
            reporter.post(.evicted, evicted, limit: .freeSpace)
        }
    }
}
