import LarderFiles

/// The one repair there is. After an unclean close, or without an index, it makes entries and files agree: *adopt* a
/// file that no line of the index mentions, *forget* an entry without a file, *delete* a file that is superseded or no
/// entry.
extension Store {
    private static let slice = 64
    /// Tombstones that are kept in mind for the sake of files that cannot be read.
    static let mostTombstones = 10_000

    func reconcileBehind() {
        if reconciliation.withLock({ $0.isConsistent }) { return }
        maintenance.begin(.reconcile) { [weak self] in
            guard let self else { return false }
            switch try? onDisk({ volume throws(CacheError) in reconcileSome(in: volume) }) {
            case true?: return true
            case false?: finishReconciling()
            case nil: break
            }
            return false
        }
    }

    /// Has another try at what could not be read; false when there is nothing to try.
    @discardableResult
    func reconcileAgain() -> Bool {
        guard provisional.isSet, reconciliation.withLock({ $0.retry() }) else { return false }
        reconcileBehind()
        return true
    }

    /// Returns false when everything has been looked at.
    private func reconcileSome(in volume: StoreDirectory) -> Bool {
        for _ in 0..<Self.slice {
            switch reconciliation.withLock({ $0.next() }) {
            case .record(let scope, let number):
                let ticket = commitBestEffort(.clear(scope, number: number), in: volume) { _ in }
                _ = attempting { () throws(CacheError) in try wait(for: ticket) }
            case .examine(let file):
                examine(file, in: volume)
            case .verify(let entry):
                verify(entry, in: volume)
            case .readTombstone(let number):
                readTombstone(number, in: volume)
            case .resolve(let file):
                resolve(aside: file, in: volume)
            case .delete(let file, let key):
                delete(file, of: key, in: volume)
            case .check(let entry):
                check(entry, in: volume)
            case .finish:
                concludeReconciling()
                return false
            }
        }
        return true
    }

    /// Notes that everything has been looked at. In a block of `disk`, with the step that said so: another directory
    /// that is opened meanwhile has a reconciliation of its own.
    private func concludeReconciling() {
        // What was adopted came in the order of its files, the newest first; nothing is evicted before.
        if tally.withLock({ $0.adoptions }) > 0 { index.orderAnew(at: clock.now) }
        let (isConsistent, hasUnread) = reconciliation.withLock { reconciliation in
            reconciliation.finish()
            return (reconciliation.isConsistent, reconciliation.hasUnread)
        }
        if !hasUnread { index.forEachShard { $0.forgetTombstones() } }
        if isConsistent { provisional.set(false) }
    }

    /// Begins what had to wait.
    private func finishReconciling() {
        _ = removeExpired(at: clock.now)
        unlinkAnyBehind()
        unlinkTombstones()
        enforceBehind()
        info.run {
            if journal.isDirty, journal.schedule.changed() { scheduleSave() }
        }
    }

    /// Looks at a file that no line of the index mentions.
    private func examine(_ file: UInt64, in volume: StoreDirectory) {
        do {
            switch try volume.footer(of: file) {
            case .valid(let found): consider(found, in: volume)
            case .invalid, .longer: reconciliation.withLock { $0.addOrphan(file, of: nil) }
            case .newer, nil: break
            }
        } catch .noEntry {
        } catch {
            reconciliation.withLock { $0.couldNotRead(file) }
            return report(CacheError(error, doing: "look at an unknown file", path: volume.path(of: file)))
        }
        reconciliation.withLock { $0.examined() }
    }

    /// Adopts an entry that was found by its file, unless more is known about its key.
    private func consider(_ found: IndexEntry, in volume: StoreDirectory) {
        let key = found.key
        let cleared = reconciliation.withLock { $0.cleared.number(for: found) }
        let now = clock.now
        raiseNumbers(to: max(found.file, found.change))
        let isWanted = stripes[key.shard].withLock { _ in
            switch index.withShard(of: key, { $0.verdict(on: found, key, clearedBelow: cleared, at: now) }) {
            case .known:
                takeOver(found, key, in: volume)
                return true
            case .dead:
                return false
            case .over:
                // What it once replaced is dead with it.
                _ = commitBestEffort(.remove(key: key, number: found.file + 1), in: volume) { index in
                    index.change(key, cleared > found.file ? .cleared : .expired) { shard in
                        // Not obsolete: of the files of a key the older go first, and this one is condemned.
                        if let old = shard.remove(key, below: found.file + 1) {
                            reconciliation.withLock { $0.addOrphan(old.file, of: key) }
                        }
                    }
                }
                return false
            case .adopt:
                _ = commitBestEffort(.set(found), in: volume) { index in
                    index.change(key, .replaced) { shard in
                        if let old = shard.table.publish(found, for: key) { shard.markObsolete(old.file, of: key) }
                    }
                }
                report(CacheEvent(.adopted, of: key)) { $0.adoptions += 1 }
                return true
            }
        }
        if !isWanted { reconciliation.withLock { $0.addOrphan(found.file, of: key) } }
    }

    /// Asks the file of an entry for its life. Where the footer is damaged the payload may be whole, and the index
    /// knows enough.
    private func verify(_ entry: Reconciliation.Entry, in volume: StoreDirectory) {
        let (key, file) = entry
        do {
            if case .valid(let found)? = try volume.footer(of: file) {
                let known = index.withShard(of: key) { $0.table.entry(key) }
                if let known, known.file == file, !found.isEntry(known, of: key) {
                    // The line is of another file that had the number: an index from elsewhere, or from long ago.
                    drop(entry, in: volume)
                    consider(found, in: volume)
                } else {
                    stripes[key.shard].withLock { _ in takeOver(found, key, in: volume) }
                }
            }
        } catch .noEntry {
        } catch {
            reconciliation.withLock { $0.couldNotVerify(entry) }
            return report(CacheError(error, doing: "look at an entry", path: volume.path(of: file)), of: key)
        }
        reconciliation.withLock { $0.verified(entry) }
    }

    private func delete(_ file: UInt64, of key: Key?, in volume: StoreDirectory) {
        do {
            try volume.unlink(file)
            tally.withLock { $0.orphansDeleted += 1 }
        } catch {
            // No newer file of the key may go before this one: with the index lost, it would be adopted.
            if let key = key ?? knownKey(of: file, in: volume) {
                index.withShard(of: key) { $0.markObsolete(file, of: key) }
            } else {
                index.withShard(at: 0) { $0.markObsolete(file) }
            }
            report(CacheError(error, doing: "delete an orphan", path: volume.path(of: file)))
        }
    }

    private func knownKey(of file: UInt64, in volume: StoreDirectory) -> Key? {
        if case .valid(let found)? = try? volume.footer(of: file) { found.key } else { nil }
    }

    /// Forgets an entry whose file was not in the directory, if it still is not.
    private func check(_ entry: Reconciliation.Entry, in volume: StoreDirectory) {
        do {
            _ = try fileSystem.status(of: .number(entry.file), in: volume.entries.file)
        } catch .noEntry {
            drop(entry, in: volume)
        } catch {
            // It stays; the next read finds out.
            report(CacheError(error, doing: "look for an entry", path: volume.path(of: entry.file)), of: entry.key)
        }
    }

    private func drop(_ entry: Reconciliation.Entry, in volume: StoreDirectory) {
        let (key, file) = entry
        let isForgotten = stripes[key.shard].withLock { _ in
            guard index.withShard(of: key, { $0.table.entry(key)?.file }) == file else { return false }
            _ = commitBestEffort(.remove(key: key, number: file + 1), in: volume) { index in
                index.change(key, .evictedOnDisk) { _ = $0.remove(key, below: file + 1) }
            }
            return true
        }
        if isForgotten { report(CacheEvent(.lost, of: key)) { $0.losses += 1 } }
    }

    /// Reads a tombstone that could not be read before, and does what it says.
    private func readTombstone(_ number: UInt64, in volume: StoreDirectory) {
        let name = DirectoryLayout.tombstoneNumber(number)
        let found: EntryFile.Tombstone?
        do {
            found = try volume.tombstone(number)
        } catch .noEntry {
            found = nil
        } catch {
            return report(CacheError(error, doing: "read a tombstone", path: volume.path(of: name)))
        }
        switch found {
        case .newer: return
        case .valid(let removal):
            remove(removal, below: number, in: volume)
            tombstones.withLock { _ = $0.insert(number, of: removal) }
        case .invalid: reconciliation.withLock { $0.addOrphan(name, of: nil) }
        case nil: break
        }
        reconciliation.withLock { $0.readTombstone(number) }
    }

    private func remove(_ removal: EntryFile.Removal, below number: UInt64, in volume: StoreDirectory) {
        var shards = Array(0..<Index.shardCount)
        switch removal {
        case .scope(let scope): reconciliation.withLock { $0.clear(scope, below: number) }
        case .key(let key): shards = [key.shard]
        }
        for shard in shards {
            for entry in snapshot(shard) where entry.file != 0 && entry.file < number && removal.covers(entry) {
                let key = entry.key
                stripes[shard].withLock { _ in
                    _ = commitBestEffort(.remove(key: key, number: entry.file + 1), in: volume) { index in
                        index.change(key, .cleared) { shard in
                            guard shard.table.entry(key)?.file == entry.file else { return }
                            shard.remove(key, below: entry.file + 1)
                            shard.markObsolete(entry.file, of: key)
                        }
                    }
                }
            }
        }
    }

    /// Looks again at a file that was set aside: if it can be read by now, the older files of its key are dead, and so
    /// is it.
    private func resolve(aside file: UInt64, in volume: StoreDirectory) {
        let name = DirectoryLayout.asideNumber(file)
        do {
            switch try volume.footer(of: file, in: name) {
            case .valid(let found):
                remove(.key(found.key), below: file, in: volume)
                reconciliation.withLock { $0.addOrphan(name, of: nil) }
            case .invalid, .longer: reconciliation.withLock { $0.addOrphan(name, of: nil) }
            case .newer, nil: return
            }
        } catch .noEntry {
        } catch {
            return
        }
        reconciliation.withLock { $0.resolved(aside: file) }
    }

    /// Bounds the tombstones that are kept for the sake of files that cannot be read: beyond the bound such a file is
    /// set aside. It will not be adopted, and entries below its number are not answered. On the maintenance queue.
    func boundTombstones() {
        guard provisional.isSet, !isReconciling, hasTooManyTombstones else { return }
        _ = attempting { () throws(CacheError) in
            try onDisk { volume throws(CacheError) in
                for file in reconciliation.withLock({ $0.unreadable }) { setAside(file, in: volume) }
                if !reconciliation.withLock({ $0.hasUnread }) { concludeReconciling() }
            }
        }
        if !reconcileAgain() { finishReconciling() }
    }

    func boundTombstonesBehind() {
        maintenance.begin(.bound) { [weak self] in
            self?.boundTombstones()
            return false
        }
    }

    var hasTooManyTombstones: Bool {
        index.tombstoneCount > Self.mostTombstones || tombstones.withLock { $0.count } > Self.mostTombstones
    }

    private func setAside(_ file: UInt64, in volume: StoreDirectory) {
        do {
            // Were it readable by now, it would be examined.
            _ = try volume.footer(of: file)
        } catch .noEntry, .tooManyOpenFiles {
        } catch {
            let name = DirectoryLayout.asideNumber(file)
            let failure = CacheError(
                error, doing: "read a file while \(Self.mostTombstones) entries were removed; it is set aside",
                path: volume.path(of: name))
            do {
                guard reconciliation.withLock({ $0.setAside(file) }) else { return }
                try volume.rename(file, to: name)
                report(failure)
            } catch {
                // For this session it is aside all the same.
                report(CacheError(error, doing: "set a file aside", path: volume.path(of: file)))
            }
        }
    }
}
