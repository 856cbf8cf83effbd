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
        switch record {
        case .clear(let scope, let number):
            loadAll(for: scope)
            _ = clearOlder(scope, below: number, deletesFiles: false)
            return .scope(scope)
        case .expire(let scope, let number, let time):
            loadAll(for: scope)
            expire(scope, ExpiryMarks.Mark(number: number, time: time))
            return .scope(scope)
        default: break
        }
        guard let key = record.key else { return .none }
        if case .set(var entry) = record, entry.attachments != nil {
            entry.attachments = pool.shared(entry.attachments)
            return apply(.set(entry), of: key) ? .key(key) : .none
        }
        return apply(record, of: key) ? .key(key) : .none
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
