import LarderFiles

/// The changes of other processes.
extension Store {
    /// Brings them into the index, at the beginning of a call. Where the journals of others are gone because the
    /// directory was deleted, opens the new one first. Returns false when no call may answer from the index.
    @inline(__always)
    func follow() -> Bool { disk.follow() || followReopened() }

    @inline(never)
    private func followReopened() -> Bool {
        reopenIfDeleted()
        if disk.follow() { return true }
        // A forked child must begin no work: its parent's locks may be held for ever.
        if !disk.isForked { reconciler.distrustIndex() }
        return false
    }

    /// Returns the follower that brings them into the index. It must not keep the store, or its commits, which keep it.
    func follower(_ membership: Membership, _ loaded: borrowing LoadedStore) -> Follower {
        let (index, pool, observer, events) = (index, pool, observer, events)
        let actions = Follower.Actions { [weak expirer] record in
            switch index.apply(record, pool) {
            case .none: break
            case .key(let key):
                observer.didChange(key)
                events.post(CacheEvent(.changedElsewhere, of: key))
            case .scope(let scope):
                observer.didClear(scope, in: index)
                events.post(CacheEvent(.changedElsewhere, of: scope, count: 0))
                expirer?.applyInBackground()
            }
        } reload: { [weak self] follower, isWhole in
            self?.reloadIndex(following: follower, isWhole: isWhole)
        } awaitOwnCommit: { [weak info] in
            info?.awaitCommit()
        } dropValues: {
            index.invalidateAll(in: .everything)
            observer.didClear(.everything) { _ in true }
        } meetDemand: { [weak info] in
            info?.demandSave()
            info?.scheduleSaveIfDirty()
        } forgetGraves: { number in
            index.forgetGraves(through: number)
        }
        index.noteDebts { membership.page.debts(of: membership.lane, shard: $0) }
        return Follower(
            membership, at: loaded.positions, last: loaded.lastNumber, recorded: loaded.journals.recorded,
            in: fileSystem, actions)
    }

    /// Reads the index anew, because other processes have begun more journals than can be followed, or have deleted
    /// one that was. Nil when it cannot be read.
    ///
    /// Commits of this process wait: one that was published in the old index would be lost.
    private func reloadIndex(following follower: Follower, isWhole: Bool) -> JournalPositions? {
        guard let root = follower.membership.root else { return nil }
        let isWhole = isWhole || provisional.distrusted != nil
        let now = clock.now
        let positions = info.run { () -> JournalPositions? in
            let opener = Opener(
                fileSystem: fileSystem, path: path, identity: follower.membership.identity, root: root, now: now,
                isPowerSafe: settings.isPowerSafe, mayLoadLater: !isWhole && settings.manifestFormat == .json,
                membership: follower.membership)
            guard let loaded = reporter.attempt({ () throws(CacheError) in try opener.loadBesideOthers(again: true) })
            else {
                return nil
            }
            index.replace(with: loaded.shards, loaded.groups, isSameDirectory: true, at: now)
            return loaded.positions
        }
        // Another process has saved what could not be read.
        if positions != nil, isWhole, provisional.distrusted != nil { provisional.replace(with: Reconciliation()) }
        if positions != nil { observer.didClear(.everything) { _ in true } }
        return positions
    }
}
