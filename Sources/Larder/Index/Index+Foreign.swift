import LarderFiles

/// Changes of other processes that use the directory.
extension Index {
    /// The effect of a change, for those who watch keys.
    enum ForeignEffect {
        case none
        case key(Key)
        case scope(ClearScope)
    }

    /// Applies a change of another process. Idempotent; it may come after a change with a higher number.
    func apply(_ record: consuming Record, _ pool: AttachmentsPool) -> ForeignEffect {
        switch consume record {
        case .set(var entry):
            if entry.attachments != nil { entry.attachments = pool.shared(entry.attachments) }
            let key = entry.key
            return receive(entry, key) ? .key(key) : .none
        case .remove(let key, let number):
            let isRemoved = changeIfKnown(key) { shard, known in
                shard.remove(key, below: number)
                return known.map { $0.file < number } ?? false
            }
            // Even without an entry: a fetch that is under way must not store its value.
            if !isRemoved { invalidate(key, .changedElsewhere) }
            return .key(key)
        case .life(let key, let file, let change, let life, let update):
            let isChanged = changeIfKnown(key) { shard, known in
                guard let known, known.file == file, known.change < change else { return false }
                shard.setLife(life, change: change, update, of: known, key)
                return true
            }
            return isChanged ? .key(key) : .none
        case .used(let key, let file, let change, let time, let expires):
            withShard(of: key) { shard in
                guard let known = shard.table.entry(key), known.file == file else { return }
                shard.table.setUse(
                    at: time, expires: known.change == change ? expires : known.life.expires, for: key)
            }
            return .none
        case .obsolete(let file, let key?):
            let isRemoved = changeIfKnown(key) { shard, known in
                guard let known, known.file == file else { return false }
                shard.table.remove(key)
                return true
            }
            return isRemoved ? .key(key) : .none
        case .clear(let scope, let number):
            loadAll(for: scope)
            _ = clearOlder(scope, below: number, deletesFiles: false)
            return .scope(scope)
        case .expire(let scope, let number, let time):
            loadAll(for: scope)
            expire(scope, ExpiryMarks.Mark(number: number, time: time))
            return .scope(scope)
        case .header, .obsolete, .closed, .groups, .unknown:
            return .none
        }
    }

    /// Forgets the graves that no change of another process can come after: all with a lower number are known.
    func forgetGraves(through number: UInt64) {
        let hasUnloaded = hasUnloaded.isSet
        forEachShard { $0.graves.forget(through: number, onlyKeys: hasUnloaded) }
    }

    /// The removals that a change may still come after.
    var graves: Graves {
        var graves = Graves()
        forEachShard { graves.add($0.graves) }
        return graves
    }
}
