import LarderFiles

/// Notices: what another machine changes is, for memory, fetches and copies, as if another process on the directory had
/// changed it.
extension RemoteLink {
    func receive(_ notice: RemoteNotice) {
        switch notice {
        // Changes made here from now on are newer.
        case .changed(let name, let version):
            if let version { observe(version) }
            noteChange(name, version)
        case .cleared(let scope, let version, _):
            if let version { observe(version) }
            noteClear(scope, version)
        case .changedAll:
            state.withLock { state in
                state.trust.noteAll()
                state.queue.noteChanges()
            }
            dropMemory()
            disk.store.observer.didClear(.namespace(disk.keyNamespace))
            leases.openAllGates()
        case .connected(let epoch, let time):
            let now = now
            let isNews = state.withLock { state in
                defer { state.connect(epoch) }
                state.clock.correct(to: time, at: now)
                return state.isTroubled
            }
            dropMemory()
            // Leases may have gone with the epoch.
            leases.openAllGates()
            if isNews { post(.remoteTierConnected) }
            drainSoon()
            removeOutdatedSoon()
        case .disconnected(let reason):
            let isNews = state.withLock { state in
                defer { (state.isConnected, state.isLossReported) = (false, true) }
                return state.isConnected || !state.isLossReported
            }
            openAll()
            leases.openAllGates()
            removeOutdatedSoon()
            if isNews { post(.remoteTierLost, "The remote tier cannot be reached: \(reason)") }
        case .leaseEnded(let name):
            if let key = key(name) { leases.openGates(key) }
        }
    }

    private func key(_ name: RemoteKey) -> Key? {
        guard name.namespace.hasSameBytes(as: namespace) else { return nil }
        return disk.key(name.key)
    }

    private func noteChange(_ name: RemoteKey, _ version: RemoteVersion?) {
        guard let key = key(name) else { return }
        let index = disk.store.index
        // While a damaged index is rebuilt, an entry may come to light later.
        let hasCopy = index.mayHaveEntry(key) || disk.store.recovery.provisional.isSet
        let isNoted = state.withLock { state in
            state.counts.notices += 1
            state.queue.noteChange(key)
            return state.trust.note(key, version: version, hasCopy: hasCopy)
        }
        if isNoted { index.invalidate(key, .changedElsewhere) } else { dropMemory() }
        disk.store.observer.didChange(key)
        if hasCopy {
            disk.store.events.post(CacheEvent(.changedElsewhere, keys: [key.text], in: disk.keyNamespace))
        }
        leases.openGates(key)
        removeOutdatedSoon()
    }

    private func noteClear(_ scope: RemoteScope, _ version: RemoteVersion?) {
        guard scope.namespace.hasSameBytes(as: namespace) else { return }
        let tag = scope.tag.map { disk.key($0) }
        state.withLock { state in
            state.counts.notices += 1
            state.queue.noteChanges(tagged: tag)
            state.trust.note(clearOf: tag, version: version)
        }
        dropMemory()
        disk.store.observer.didClear(tag.map { .tag($0) } ?? .namespace(disk.keyNamespace), in: disk.store.index)
        let name = disk.keyNamespace.isNone ? nil : disk.keyNamespace.name
        disk.store.events.post(CacheEvent(.changedElsewhere, namespace: name, tag: scope.tag))
        removeOutdatedSoon()
    }

    /// Empties the memory tiers of the namespace, one shard after the other: a copy that is on its way in has been
    /// checked before, and is dropped, or is checked afterwards, and stays out.
    func dropMemory() {
        disk.store.index.invalidateAll(in: .namespace(disk.keyNamespace))
    }
}

/// Removing the copies that notices concern. Without that, notices would fill the memory, and a restart would forget
/// them.
extension RemoteLink {
    /// Begins in the background. Not while the index is provisional: a copy that is not found may come to light later.
    func removeOutdatedSoon() {
        let isProvisional = disk.store.recovery.provisional.isSet
        state.withLock { state in
            guard state.removing == nil, state.trust.hasUnresolved, !state.isStopped, !isProvisional else { return }
            // Not a part of the fetch that may be under way.
            state.removing = Flight.$current.withValue(nil) { clock.begin(.utility) { await self.removeOutdated() } }
        }
    }

    private func removeOutdated() async {
        while true {
            let (keys, clears, last) = state.withLock { state in
                // When the cache is closed, the rest stays.
                let (keys, clears) = state.trust.takeUnresolved(state.isStopped ? 0 : 256)
                let isOver = state.isStopped || keys.isEmpty && clears.isEmpty
                if isOver { state.removing = nil }
                return (keys, isOver ? [:] : clears, state.trust.last)
            }
            if keys.isEmpty, clears.isEmpty { return }
            await disk.store.io.run { for key in keys { _ = self.removeOutdated(key, upTo: last) } }
            if !clears.isEmpty { await removeCleared(clears, upTo: last) }
        }
    }

    /// Removes a copy if a notice up to `number` concerns it, and forgets the notice. Returns false when it stays and
    /// must not be returned: it waits to be sent, its version cannot be compared, or the disk fails.
    private func removeOutdated(_ key: Key, upTo number: UInt64) -> Bool {
        // A failure is reported by the store.
        _ = try? disk.remove(key, isHeard: true) { entry in self.state.withLock { $0.isOld(entry, key) } }
        let rest = disk.store.index.entry(key)
        return state.withLock { state in
            guard let rest else {
                state.trust.forget(key, upTo: number)
                return true
            }
            if state.standing(of: key, rest) == .noticed { return false }
            state.trust.forgetNotice(key, upTo: number)
            return true
        }
    }

    /// The same for all copies that clears concern. O(entries), a shard at a time.
    private func removeCleared(_ clears: [Key?: RemoteTrust.Notice], upTo number: UInt64) async {
        let (index, namespace) = (disk.store.index, disk.keyNamespace)
        await disk.store.io.run { index.loadAll(for: .namespace(namespace)) }
        var staying: Set<Key?> = []
        for shard in 0..<Index.shardCount {
            if state.withLock({ $0.isStopped }) { return }
            staying.formUnion(
                await disk.store.io.run {
                    var staying: Set<Key?> = []
                    for entry in index.snapshot(shard) where entry.namespace == namespace {
                        let scopes = ([nil] + entry.tags.map { Key?.some($0) }).filter { clears[$0] != nil }
                        let key = entry.key
                        if scopes.isEmpty || self.state.withLock({ $0.standing(of: key, entry) != .noticed }) {
                            continue
                        }
                        if self.removeOutdated(key, upTo: number) { continue }
                        staying.formUnion(scopes)
                    }
                    return staying
                })
        }
        state.withLock { [staying] state in
            for (tag, clear) in clears where !staying.contains(tag) { state.trust.forget(clear, of: tag) }
        }
    }
}
