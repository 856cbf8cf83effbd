import LarderFiles

/// The one repair there is. After an unclean close, or without an index, it makes rows and files agree:
/// *adopt* a file that no row mentions, *forget* a row without a file, *delete* a file that is superseded or no entry.
extension Store {
    private static let slice = 64

    func reconcileBehind() {
        if reconciliation.withLock({ $0.isDone }) { return }
        chores.begin(.reconcile) { [weak self] in
            guard let self else { return false }
            switch try? onDisk({ volume throws(CacheError) in reconcileSome(in: volume) }) {
            case true?: return true
            case false?: finishReconciling()
            case nil: break
            }
            return false
        }
    }

    /// Returns false when everything has been looked at.
    private func reconcileSome(in volume: Volume) -> Bool {
        for _ in 0..<Self.slice {
            switch reconciliation.withLock({ $0.next() }) {
            case .record(let scope, let number):
                let ticket = commitBestEffort(.clear(scope, number: number), in: volume) { _ in }
                _ = attempting { () throws(CacheError) in try wait(for: ticket) }
            case .examine(let file):
                examine(file, in: volume)
            case .delete(let file, let key):
                delete(file, of: key, in: volume)
            case .check(let key, let file):
                check(key, file, in: volume)
            case .finish:
                return false
            }
        }
        return true
    }

    private func finishReconciling() {
        // What was adopted came in the order of its files, the newest first; nothing is evicted before.
        if tally.withLock({ $0.adoptions }) > 0 { index.orderAnew() }
        let isDone = reconciliation.withLock { reconciliation in
            reconciliation.finish()
            return reconciliation.isDone
        }
        unlinkAnyBehind()
        unlinkTombstones()
        enforceBehind()
        if isDone { index.forEachShard { $0.forgetGraves() } }
        info.run {
            if journal.isDirty, journal.schedule.changed() { scheduleSave() }
        }
    }

    /// Looks at a file that no row mentioned when the directory was opened, or at any after damage to the index.
    private func examine(_ file: UInt64, in volume: Volume) {
        let footer: EntryFile.Footer?
        do {
            footer = try self.footer(of: file, in: volume)
        } catch .noEntry {
            return
        } catch {
            return leaveResidue(CacheError(error, doing: "look at an unknown file", path: volume.path(of: file)))
        }
        switch footer {
        case .valid(let row): consider(row, in: volume)
        case .invalid, .longer: reconciliation.withLock { $0.condemnUnmentioned(file) }
        case .newer, nil: break
        }
    }

    private func leaveResidue(_ error: CacheError) {
        reconciliation.withLock { $0.leaveResidue() }
        report(error)
    }

    /// Reads a footer; nil when the name is no regular file.
    private func footer(of number: UInt64, in volume: Volume) throws(Errno) -> EntryFile.Footer? {
        guard let (file, size) = try fileSystem.openRegular(.number(number), in: volume.entries.file) else {
            return nil
        }
        var length = min(size, 1 << 10)
        while true {
            var tail = [UInt8](repeating: 0, count: length)
            if try fileSystem.read(file.file, at: size - length, into: &tail) < length { return .invalid }
            let footer = tail.withBytes { EntryFile.footer(of: number, tail: $0, fileSize: size) }
            guard case .longer(let needed) = footer, needed > length,
                needed <= LineReader.longestRecord + EntryFile.trailerLength
            else {
                return footer
            }
            length = needed
        }
    }

    /// Adopts an entry that was found by its file, unless more is known about its key.
    private func consider(_ row: Row, in volume: Volume) {
        let key = row.name
        let cleared = reconciliation.withLock { $0.cleared.number(for: row) }
        let now = clock.now
        raiseNumbers(to: row.change)
        let isWanted = stripes[key.shard].withLock { _ in
            let known = index.withShard(of: key) { ($0.manifest.row(key)?.file ?? 0, $0.graves[key] ?? 0) }
            if known.0 == row.file {
                renew(row, key, in: volume)
                return true
            }
            guard max(known.0, known.1) < row.file else { return false }
            if cleared > row.file || row.isOver(at: now) {
                // It was removed with others or has expired, and what it once replaced is dead with it.
                _ = commitBestEffort(.remove(key: key, number: row.file), in: volume) { index in
                    index.change(key, cleared > row.file ? .cleared : .expired) { shard in
                        if let old = shard.remove(key, number: row.file) { shard.doom(old.file, of: key) }
                    }
                }
                return false
            }
            _ = commitBestEffort(.set(row), in: volume) { index in
                index.change(key, .replaced) { shard in
                    if let old = shard.manifest.publish(row, for: key) { shard.doom(old.file, of: key) }
                }
            }
            report(CacheEvent(.adopted, of: key)) { $0.adoptions += 1 }
            return true
        }
        if !isWanted { reconciliation.withLock { $0.condemn(row.file, of: key) } }
    }

    /// Takes over a life that only the file knows.
    private func renew(_ found: Row, _ key: Key, in volume: Volume) {
        guard let known = index.withShard(of: key, { $0.manifest.row(key) }), known.change < found.change else {
            return
        }
        let record = Record.life(key: key, file: found.file, change: found.change, found.life)
        _ = commitBestEffort(record, in: volume) { index in
            index.change(key, .replaced) { $0.manifest.setLife(found.life, change: found.change, for: key) }
        }
    }

    private func delete(_ file: UInt64, of key: Key?, in volume: Volume) {
        do {
            try volume.unlink(file)
            tally.withLock { $0.orphansDeleted += 1 }
        } catch {
            // No newer file of the key may go before this one: with the index lost, it would be adopted.
            if let key { index.withShard(of: key) { $0.doom(file, of: key) } }
            leaveResidue(CacheError(error, doing: "delete an orphan", path: volume.path(of: file)))
        }
    }

    /// Forgets a row whose file was not in the directory, if it still is not.
    private func check(_ key: Key, _ file: UInt64, in volume: Volume) {
        do {
            _ = try fileSystem.status(of: .number(file), in: volume.entries.file)
        } catch .noEntry {
            let isForgotten = stripes[key.shard].withLock { _ in
                guard index.withShard(of: key, { $0.manifest.row(key)?.file }) == file, let number = try? takeNumber()
                else { return false }
                _ = commitBestEffort(.remove(key: key, number: number), in: volume) { index in
                    index.change(key, .evictedOnDisk) { _ = $0.remove(key, number: number) }
                }
                return true
            }
            if isForgotten { report(CacheEvent(.lost, of: key)) { $0.losses += 1 } }
        } catch {
            leaveResidue(CacheError(error, doing: "look for an entry", path: volume.path(of: file)))
        }
    }
}
