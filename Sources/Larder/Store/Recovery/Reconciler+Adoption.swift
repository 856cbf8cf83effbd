import LarderFiles

/// Files that no line of the index mentions. An intact one is adopted, unless the index has newer information about its
/// key.
extension Reconciler {
    /// The number of files from which a second thread pays off.
    private static let many = 32
    /// The number of files that are adopted with one write, while changes of their keys wait.
    private static let slice = 32

    /// Examines files, the newest first. Two threads share them if there are many: most of the time goes to system
    /// calls. Older entries count only once all of these files are examined.
    func examine(_ files: [FileID], in directory: StoreDirectory) {
        for file in files where file.place.isWholeSegment { list(file, in: directory) }
        let files = files.filter { !$0.place.isWholeSegment }
        if files.count < Self.many {
            consider(files.compactMap { read($0, in: directory) }, in: directory)
        } else {
            let found = readOnTwoThreads(files, in: directory)
            // Each thread takes every other stripe: the files of a key stay in order.
            clock.runHalves { half in
                consider(found.filter { $0.key.shard % 2 == half }, in: directory)
            }
        }
        provisional.update { $0.examined() }
    }

    /// Lists the entries of a segment that could not be read before; they are examined next.
    private func list(_ segment: FileID, in directory: StoreDirectory) {
        var listing = SegmentTable.Listing()
        // First: one that is deleted meanwhile is not listed, or found to be dead.
        var obsolete: Set<FileID> = []
        index.forEachShard { obsolete.formUnion($0.debts.files.lazy.map(\.file)) }
        do {
            try directory.segments.list(segment.place.segment, into: &listing)
        } catch .noEntry {
        } catch {
            provisional.update { $0.couldNotRead(segment) }
            let path = directory.path(of: segment)
            return reporter.report(CacheError(error, doing: "read a segment", path: path))
        }
        // Those of this session are known, and so are those that only wait to be deleted.
        let last = info.lastNumberBefore
        let suspects = listing.entries.filter { $0 <= last && !obsolete.contains($0) }
        provisional.update { $0.add(suspects: suspects) }
    }

    /// Returns the entries that files describe, in their order.
    private func readOnTwoThreads(_ files: [FileID], in directory: StoreDirectory) -> [IndexEntry] {
        let middle = files.count / 2
        let halves = Lock([[IndexEntry]](repeating: [], count: 2))
        clock.runHalves { half in
            let found = (half == 0 ? files[..<middle] : files[middle...]).compactMap { read($0, in: directory) }
            halves.withLock { $0[half] = found }
        }
        return halves.withLock { $0[0] + $0[1] }
    }

    /// Returns the entry that a file describes; nil when there is nothing to adopt.
    private func read(_ file: FileID, in directory: StoreDirectory) -> IndexEntry? {
        do {
            switch try directory.footer(of: file) {
            case .valid(let found), .last(let found): return found
            case .invalid, .longer: provisional.update { $0.addOrphan(file, of: nil) }
            case .newer, nil: break
            }
        } catch .noEntry {
        } catch {
            provisional.update { $0.couldNotRead(file) }
            let path = directory.path(of: file)
            reporter.report(CacheError(error, doing: "examine an unknown file", path: path))
        }
        return nil
    }

    private enum Change {
        case adopt(IndexEntry, hasEnded: Bool)
        /// Removes the older entries of a dead file's key: it had replaced them.
        case remove(below: UInt64, RemovalCause)

        func record(of key: Key) -> Record {
            switch self {
            case .adopt(let entry, _): .set(entry)
            case .remove(let number, _): .remove(key: key, number: number)
            }
        }
    }

    /// Decides about entries that were found by their files, the newest first: adopts them or has the files deleted.
    func consider(_ found: [IndexEntry], in directory: StoreDirectory) {
        for start in stride(from: 0, to: found.count, by: Self.slice) {
            considerSome(Array(found[start...].prefix(Self.slice)), in: directory)
        }
    }

    private func considerSome(_ files: [IndexEntry], in directory: StoreDirectory) {
        // Where a value has two places, it is removed if one of them says so.
        let over = Set(files.lazy.filter { $0.life == .over }.map(\.file.number))
        var found = files
        for place in found.indices where over.contains(found[place].file.number) { found[place].life = .over }
        info.raiseNumbers(to: found.reduce(0) { max($0, $1.file.number, $1.change) })
        let now = clock.now
        let (keys, entries) = (found.map(\.key), found.map(recovery.endingHidden))
        var orphans: [(file: FileID, key: Key)] = []
        disk.withStripes(keys.map(\.shard)) {
            let (cleared, marks) = provisional.update { state in (found.map(state.cleared.number), state.marks) }
            var seen: Set<Key> = []
            var changes: [(key: Key, change: Change)] = []
            for (place, key) in keys.enumerated() {
                let (file, isNewest) = (found[place].file, seen.insert(key).inserted)
                let ended = marks.ending(entries[place])
                let verdict = index.withShard(of: key) { shard in
                    shard.verdict(on: ended ?? entries[place], key, clearedBelow: cleared[place], at: now)
                }
                switch verdict {
                case .known:
                    recovery.takeOverLife(of: found[place], key)
                case .dead:
                    orphans.append((file, key))
                case .copy(let known) where directory.intact(known, or: found[place]) == file:
                    // Its move was not recorded, and the known place has been deleted or is torn.
                    var entry = known.merged(with: entries[place])
                    entry.file = file
                    changes.append((key, .adopt(entry, hasEnded: entry.life.isEnded)))
                case .copy:
                    recovery.takeOverLife(of: found[place], key)
                    orphans.append((file, key))
                case .over where !isNewest, .adopt where !isNewest:
                    orphans.append((file, key))
                case .over:
                    changes.append((key, .remove(below: file.number + 1, cleared[place] > file ? .cleared : .expired)))
                    orphans.append((file, key))
                case .adopt:
                    var entry = entries[place]
                    entry.attachments = context.pool.shared(found[place].attachments)
                    changes.append((key, .adopt(entry, hasEnded: ended != nil || entry.life.isEnded)))
                }
            }
            commit(changes, marks)
        }
        provisional.update { state in orphans.forEach { state.addOrphan($0.file, of: $0.key) } }
    }

    private func commit(_ changes: [(key: Key, change: Change)], _ marks: ExpiryMarks) {
        if changes.isEmpty { return }
        var all = Changes()
        for (key, change) in changes { all.append(change.record(of: key)) }
        info.commitIfPossible(all) {
            for (key, change) in changes { publish(change, of: key, marks) }
        }
        for case (let key, .adopt) in changes {
            reporter.report(CacheEvent(.adopted, of: key)) { $0.adoptions += 1 }
        }
    }

    private func publish(_ change: Change, of key: Key, _ marks: ExpiryMarks) {
        switch change {
        case .adopt(let entry, let hasEnded):
            index.change(key, .replaced) { shard in
                if let old = shard.table.publish(entry, for: key) { shard.markObsolete(old.file, of: key) }
                if hasEnded { shard.table.expire(marks) }
            }
        case .remove(let number, let cause):
            index.change(key, cause) { shard in
                // An orphan rather than obsolete: of the files of a key the older are deleted first.
                if let old = shard.remove(key, below: number) {
                    provisional.update { $0.addOrphan(old.file, of: key) }
                }
            }
        }
    }
}
