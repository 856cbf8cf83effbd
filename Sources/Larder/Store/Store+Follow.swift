import LarderFiles

/// The changes of other processes.
extension Store {
    /// Returns what brings them into the index. It must not keep the store, or its commits, which keep it.
    func follower(_ membership: Membership, at positions: JournalPositions) -> Follower {
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
        } reload: { [weak self] follower in
            self?.reloadIndex(following: follower)
        } awaitOwnCommit: { [weak info] in
            info?.awaitCommit()
        } meetDemand: { [weak info] in
            index.invalidateAll(in: .everything)
            observer.didClear(.everything) { _ in true }
            info?.demandSave()
            info?.scheduleSaveIfDirty()
        } forgetGraves: { number in
            index.forgetGraves(through: number)
        }
        return Follower(membership, at: positions, in: fileSystem, actions)
    }

    /// Reads the index anew, because other processes have begun more journals than can be followed, or have deleted
    /// one that was. Nil when it cannot be read.
    ///
    /// Commits of this process wait: one that was published in the old index would be lost.
    private func reloadIndex(following follower: Follower) -> JournalPositions? {
        guard let root = follower.membership.root else { return nil }
        let now = clock.now
        let positions = info.run { () -> JournalPositions? in
            let opener = Opener(
                fileSystem: fileSystem, path: path, identity: follower.membership.identity, root: root, now: now,
                isPowerSafe: settings.isPowerSafe, mayLoadLater: settings.manifestFormat == .json,
                membership: follower.membership)
            guard let loaded = reporter.attempt({ () throws(CacheError) in try opener.loadBesideOthers(again: true) })
            else {
                return nil
            }
            index.replace(with: loaded.shards, loaded.groups, keepsObsolete: true, at: now)
            return loaded.positions
        }
        if positions != nil { observer.didClear(.everything) { _ in true } }
        return positions
    }
}
