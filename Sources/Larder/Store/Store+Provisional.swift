import LarderFiles

/// Reads after an unclean close: until files and index have been reconciled, an entry of the index is a hint.
extension Store {
    /// True until every file has been looked at that has to be.
    var isReconciling: Bool { provisional.isSet && !reconciliation.withLock { $0.isFinished } }

    /// Returns when every file has been looked at. O(files), once after an unclean close. Never call it from a chore,
    /// or in a block of `disk`.
    func awaitReconciliation() {
        // More than once: a look-up by somebody else may have begun meanwhile.
        for _ in 0..<3 where isReconciling { chores.wait(for: .reconcile) }
    }

    /// Returns the row of a key, whatever its life says; nil where it cannot be believed yet.
    ///
    /// With `looking`, while files and index are reconciled, only when its file is there.
    func row(_ key: Key, at now: Timestamp, looking: Bool = false) -> Row? {
        if provisional.isSet, !settle(key, at: now, looking: looking) { return nil }
        return index.withShard(of: key) { $0.manifest.row(key) }
    }

    /// The same without asking any file: nil also where one would have to be asked.
    func knownRow(_ key: Key, at now: Timestamp) -> Row? {
        let isProvisional = provisional.isSet
        let horizon = isProvisional ? reconciliation.withLock { $0.horizon } : 0
        guard let row = index.withShard(of: key, { $0.manifest.row(key) }), row.file > horizon else { return nil }
        if !isProvisional { return row }
        let hasExpired = row.life.isExpired(at: now)
        return reconciliation.withLock { $0.mustLook(at: row.file, hasExpired: hasExpired) } ? nil : row
    }

    /// Sees to it that the row of a key, if any, says what its file says; false where the row cannot be believed yet.
    func settle(_ key: Key, at now: Timestamp, looking: Bool = false) -> Bool {
        let isSettled = try? onDisk { volume throws(CacheError) in
            settle(key, at: now, looking: looking, in: volume, holdsStripe: false)
        }
        return isSettled ?? false
    }

    /// The same in a block of `disk`; `holdsStripe` when the caller keeps other changes of the key out.
    func settle(_ key: Key, at now: Timestamp, looking: Bool = false, in volume: Volume, holdsStripe: Bool) -> Bool {
        // Before the row: what is adopted meanwhile can be seen before the horizon falls.
        let horizon = reconciliation.withLock { $0.horizon }
        guard let row = index.withShard(of: key, { $0.manifest.row(key) }), row.file > horizon else { return false }
        let hasExpired = row.life.isExpired(at: now)
        let mustLook = reconciliation.withLock { reconciliation in
            reconciliation.mustLook(at: row.file, hasExpired: hasExpired) || looking && !reconciliation.isFinished
        }
        if !mustLook { return true }
        do {
            guard case .valid(let found)? = try volume.footer(of: row.file), found.isEntry(row, of: key),
                !found.hasDamagedSlot
            else { return false }
            if found.knowsMore(than: row) {
                if holdsStripe {
                    takeOver(found, key, in: volume)
                } else {
                    stripes[key.shard].withLock { _ in takeOver(found, key, in: volume) }
                }
            }
            reconciliation.withLock { $0.looked(at: row.file) }
            return true
        } catch .noEntry {
            // Replaced meanwhile, it says nothing of the row of now.
            return !isCurrent(row, key)
                && settle(key, at: now, looking: looking, in: volume, holdsStripe: holdsStripe)
        } catch {
            report(CacheError(error, doing: "look at an entry", path: volume.path(of: row.file)), of: key)
            return false
        }
    }

    /// Takes over a life that only the file knows. Call it with the key's stripe held.
    func takeOver(_ found: Row, _ key: Key, in volume: Volume) {
        guard let known = index.withShard(of: key, { $0.manifest.row(key) }), known.isSameValue(as: found),
            found.knowsMore(than: known)
        else { return }
        // No line may know of the change: its number must not be taken again.
        raiseNumbers(to: found.change)
        let record = Record.life(key: key, file: found.file, change: found.change, found.life)
        _ = commitBestEffort(record, in: volume) { index in
            index.change(key, .replaced) { $0.manifest.setLife(found.life, change: found.change, for: key) }
        }
    }
}

extension Row {
    /// True when an entry that was found by its file is the one that a row of `key` tells of.
    func isEntry(_ row: Row, of key: Key) -> Bool {
        isSameValue(as: row) && isNamed(key)
    }

    /// True when the life was renewed, or slid, after what the other knows of.
    func knowsMore(than other: Row) -> Bool {
        if hasDamagedSlot { return false }
        return (change, life.expires) > (other.change, other.life.expires)
    }
}
