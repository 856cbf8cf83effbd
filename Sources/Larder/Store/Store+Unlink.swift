import LarderFiles

extension Store {
    /// Files of one shard that may wait before the writer helps. It bounds the memory that they take.
    private static let mostDoomed = 256
    /// Files of one shard that wait before a chore is woken for all; fewer are left to the next save.
    private static let fewDoomed = 16
    private static let slice = 256

    /// Sees to it that replaced files go: behind when some have gathered, at once when too many have.
    func unlinkSomeBehind(shard: Int) {
        let count = index.withShard(at: shard) { $0.obsolete.count }
        if count > Self.mostDoomed {
            _ = try? onDisk { volume throws(CacheError) in deleteObsolete(in: volume, shard: shard) }
        } else if count > Self.fewDoomed {
            unlinkBehind()
        }
    }

    /// Begins to unlink every file that waits, if there is any, and then the tombstones.
    func unlinkAnyBehind() {
        if index.obsoleteCount > 0 || tombstones.withLock({ !$0.isEmpty }) { unlinkBehind() }
    }

    private func unlinkBehind() {
        if maintenance.isWaiting(.unlink) { return }
        let position = Lock(0)
        maintenance.begin(.unlink) { [weak self] in
            guard let self else { return false }
            var gone = 0
            while gone < Self.slice, case let shard = position.withLock({ $0 }), shard < Index.shardCount {
                let part = (try? onDisk { volume throws(CacheError) in deleteObsolete(in: volume, shard: shard) }) ?? 0
                if part < Self.slice { position.withLock { $0 += 1 } }
                gone += part
            }
            if gone >= Self.slice { return true }
            unlinkTombstones()
            return false
        }
    }

    /// Unlinks the files of all shards that wait. Returns how many went.
    @discardableResult
    func deleteObsolete(in volume: StoreDirectory) -> Int {
        (0..<Index.shardCount).reduce(0) { $0 + deleteObsolete(in: volume, shard: $1) }
    }

    /// Unlinks a slice of the files of one shard that wait; a file that cannot be unlinked goes on waiting. Call it in
    /// a block of `disk`.
    ///
    /// Never while files are being reconciled: a waiting file may be all that tells that an older one of its key is
    /// dead.
    @discardableResult
    func deleteObsolete(in volume: StoreDirectory, shard: Int) -> Int {
        if isReconciling { return 0 }
        let waiting = index.withShard(at: shard) { $0.obsolete.prefix(Self.slice) }
        if waiting.isEmpty { return 0 }
        do {
            try clearShutdownMarker()
        } catch {
            report(error)
            return 0
        }
        var gone: Set<Shard.ObsoleteFile> = []
        var failure: CacheError?
        var stuck: Set<UInt64> = []
        // In order, and no newer file of a key before an older one: with the index lost, that one would be adopted.
        for file in waiting where !stuck.contains(file.hash) {
            do {
                try volume.unlink(file.file)
                gone.insert(file)
            } catch {
                stuck.insert(file.hash)
                failure = CacheError(error, doing: "unlink a file", path: volume.path(of: file.file))
            }
        }
        if !gone.isEmpty { index.withShard(at: shard) { $0.obsolete.removeAll { gone.contains($0) } } }
        if let failure { report(failure) }
        return gone.count
    }
}
