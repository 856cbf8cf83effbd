import LarderFiles

/// The right to write a key, which may be lost until the moment of the write: a fetch loses it when somebody else sets
/// or removes the key meanwhile.
protocol WritePermit: Sendable {
    /// Asked with the key's stripe held, so the answer holds until the change is published.
    func isValid(for key: Key) -> Bool
}

/// Notified of every set, removal and clear by a caller, before that returns.
protocol ChangeObserver: AnyObject, Sendable {
    /// A key was set or removed, with `permit` or, if nil, by a direct call. The key's stripe is held.
    func didChange(_ key: Key, with permit: (any WritePermit)?)

    /// Everything in `scope` was removed; for a tag, `isTagged` looks up whether an entry had it. No change is under
    /// way.
    func didClear(_ scope: ClearScope, isTagged: (Key) -> Bool)
}

/// The one observer of a store. A store without one only reads a flag.
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
}
