import LarderFiles

/// The right to write a key. It may be revoked until the moment of the write: a fetch loses it when another caller sets
/// or removes the key.
protocol WritePermit: Sendable {
    /// Called with the key's stripe held, so the answer holds until the change is published.
    func isValid(for key: Key) -> Bool

    /// The kind of the event of a removal; nil when listeners and fetches have heard of the change before. Default: a
    /// caller has removed the entry.
    var event: CacheEvent.Kind? { get }
}

extension WritePermit {
    var event: CacheEvent.Kind? { .removed }
}

/// Notified of every set, removal, expiry and clear by a caller, before the call returns.
protocol ChangeObserver: AnyObject, Sendable {
    /// A key was set, removed or expired, with `permit` or, if nil, by a direct call. The key's stripe is held.
    func didChange(_ key: Key, with permit: (any WritePermit)?)

    /// Everything in `scope` was removed or expired; for a tag, `isTagged` looks up whether an entry had it. No change
    /// is in progress.
    func didClear(_ scope: ClearScope, isTagged: (Key) -> Bool)
}

/// The one observer of a store. Without one, a change reads only a flag.
final class ChangeObserverSlot: Sendable {
    private let isSet = Flag()
    private let observer = Lock<(any ChangeObserver)?>(nil)

    /// Returns the observer; installs the one that `make` returns when there is none.
    func observer<Observer: ChangeObserver>(orInstall make: () -> Observer) -> Observer {
        observer.withLock { observer in
            if let known = observer as? Observer { return known }
            precondition(observer == nil, "a store has one observer")
            let new = make()
            observer = new
            isSet.set()
            return new
        }
    }

    func didChange(_ key: Key, with permit: (any WritePermit)? = nil) {
        if isSet.isSet { observer.withLock { $0 }?.didChange(key, with: permit) }
    }

    func didClear(_ scope: ClearScope, isTagged: (Key) -> Bool = { _ in false }) {
        if isSet.isSet { observer.withLock { $0 }?.didClear(scope, isTagged: isTagged) }
    }

    /// The same; the index knows which entries have a tag.
    func didClear(_ scope: ClearScope, in index: Index) {
        didClear(scope) { key in
            guard case .tag(let tag) = scope else { return true }
            return index.withShard(of: key) { $0.table.isTagged(key, tag) }
        }
    }
}
