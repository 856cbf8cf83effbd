import LarderFiles

/// Reads after an unclean close: until files and index have been reconciled, an entry of the index is a hint.
extension Store {
    /// True until every file has been looked at that has to be.
    var isReconciling: Bool { provisional.isSet && !reconciliation.withLock { $0.hasScanned } }

    /// Returns when every file has been looked at. O(files), once after an unclean close. Never call it from a chore,
    /// or in a block of `disk`.
    func awaitReconciliation() {
        // More than once: a look-up by somebody else may have begun meanwhile.
        for _ in 0..<3 where isReconciling { maintenance.wait(for: .reconcile) }
    }

    /// Returns the entry of a key, whatever its life says; nil where it cannot be believed yet.
    ///
    /// With `looking`, while files and index are reconciled, only when its file is there.
    func entry(_ key: Key, at now: Timestamp, looking: Bool = false) -> IndexEntry? {
        if provisional.isSet, !settle(key, at: now, looking: looking) { return nil }
        return index.withShard(of: key) { $0.table.entry(key) }
    }

    /// The same without asking any file: nil also where one would have to be asked.
    func knownEntry(_ key: Key, at now: Timestamp) -> IndexEntry? {
        let isProvisional = provisional.isSet
        let horizon = isProvisional ? reconciliation.withLock { $0.horizon } : 0
        guard let entry = index.withShard(of: key, { $0.table.entry(key) }), entry.file > horizon else { return nil }
        if !isProvisional { return entry }
        let hasExpired = entry.life.isExpired(at: now)
        return reconciliation.withLock { $0.mustLook(at: entry.file, hasExpired: hasExpired) } ? nil : entry
    }

    /// Sees to it that the entry of a key, if any, says what its file says; false where the entry cannot be believed yet.
    func settle(_ key: Key, at now: Timestamp, looking: Bool = false) -> Bool {
        let isSettled = try? onDisk { volume throws(CacheError) in
            settle(key, at: now, looking: looking, in: volume, holdsStripe: false)
        }
        return isSettled ?? false
    }

    /// The same in a block of `disk`; `holdsStripe` when the caller keeps other changes of the key out.
    func settle(_ key: Key, at now: Timestamp, looking: Bool = false, in volume: StoreDirectory, holdsStripe: Bool)
        -> Bool
    {
        // Before the entry: what is adopted meanwhile can be seen before the horizon falls.
        let horizon = reconciliation.withLock { $0.horizon }
        guard let entry = index.withShard(of: key, { $0.table.entry(key) }), entry.file > horizon else { return false }
        let hasExpired = entry.life.isExpired(at: now)
        let mustLook = reconciliation.withLock { reconciliation in
            reconciliation.mustLook(at: entry.file, hasExpired: hasExpired) || looking && !reconciliation.hasScanned
        }
        if !mustLook { return true }
        do {
            guard case .valid(let found)? = try volume.footer(of: entry.file), found.isEntry(entry, of: key),
                !found.hasDamagedSlot
            else { return false }
            if found.knowsMore(than: entry) {
                if holdsStripe {
                    takeOver(found, key, in: volume)
                } else {
                    stripes[key.shard].withLock { _ in takeOver(found, key, in: volume) }
                }
            }
            reconciliation.withLock { $0.looked(at: entry.file) }
            return true
        } catch .noEntry {
            // Replaced meanwhile, it says nothing of the entry of now.
            return !isCurrent(entry, key)
                && settle(key, at: now, looking: looking, in: volume, holdsStripe: holdsStripe)
        } catch {
            report(CacheError(error, doing: "look at an entry", path: volume.path(of: entry.file)), of: key)
            return false
        }
    }

    /// Takes over a life that only the file knows. Call it with the key's stripe held.
    func takeOver(_ found: IndexEntry, _ key: Key, in volume: StoreDirectory) {
        guard let known = index.withShard(of: key, { $0.table.entry(key) }), known.isSameValue(as: found),
            found.knowsMore(than: known)
        else { return }
        // No line may know of the change: its number must not be taken again.
        raiseNumbers(to: found.change)
        let record = Record.life(key: key, file: found.file, change: found.change, found.life)
        _ = commitBestEffort(record, in: volume) { index in
            index.change(key, .replaced) { $0.table.setLife(found.life, change: found.change, for: key) }
        }
    }
}

extension IndexEntry {
    /// True when an entry that was found by its file is the one that a entry of `key` tells of.
    func isEntry(_ entry: IndexEntry, of key: Key) -> Bool {
        isSameValue(as: entry) && isNamed(key)
    }

    /// True when the life was renewed, or slid, after what the other knows of.
    func knowsMore(than other: IndexEntry) -> Bool {
        if hasDamagedSlot { return false }
        return (change, life.expires) > (other.change, other.life.expires)
    }
}
