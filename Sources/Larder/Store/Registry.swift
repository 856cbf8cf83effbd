import LarderFiles

/// The stores that are open in this process, by device and inode: two handles on one directory share one store.
final class Registry: Sendable {
    static let shared = Registry()

    private let places = Lock<[FileIdentity: Place]>([:])

    /// The place of one directory. Its gate is held while a store is opened or closed there.
    final class Place: Sendable {
        /// The living store, and the descriptor that carries the directory's lock: it stays locked for a successor when
        /// the store is gone but its last reference not yet.
        fileprivate struct Occupant {
            weak var store: Store?
            var root: SharedDescriptor?
        }

        fileprivate let gate = Lock(Occupant())
        fileprivate let users = Lock(0)
    }

    /// Returns the living store of a directory, or opens one; atomically.
    ///
    /// `open` gets the locked root. It runs under the gate of this directory alone.
    func store(
        of identity: FileIdentity, root: SharedDescriptor, in fileSystem: any FileSystem, path: String,
        join: (Store) throws(CacheError) -> Void,
        open: (SharedDescriptor) throws(CacheError) -> Store
    ) throws(CacheError) -> Store {
        let place = enter(identity)
        do {
            return try place.gate.withLock { occupant throws(CacheError) in
                if let store = occupant.store {
                    try join(store)
                    leave(identity, place)
                    return store
                }
                let locked = occupant.root ?? root
                if occupant.root == nil, !(try lock(root, in: fileSystem, path: path)) { throw .directoryInUse(path) }
                let store = try open(locked)
                try join(store)
                store.lease = Lease(identity: identity, place: place, registry: self)
                occupant.store = store
                occupant.root = locked
                return store
            }
        } catch {
            leave(identity, place)
            throw error
        }
    }

    fileprivate func take(_ identity: FileIdentity, root: SharedDescriptor, for store: Store) throws(CacheError) -> Lease {
        let place = enter(identity)
        return try place.gate.withLock { occupant throws(CacheError) in
            guard occupant.store == nil, occupant.root == nil, try lock(root, in: store.fileSystem, path: store.path) else {
                leave(identity, place)
                throw .directoryInUse(store.path)
            }
            occupant.store = store
            occupant.root = root
            return Lease(identity: identity, place: place, registry: self)
        }
    }

    private func enter(_ identity: FileIdentity) -> Place {
        places.withLock { places in
            let place = places[identity] ?? Place()
            places[identity] = place
            place.users.withLock { $0 += 1 }
            return place
        }
    }

    private func lock(_ root: SharedDescriptor, in fileSystem: any FileSystem, path: String) throws(CacheError) -> Bool {
        try translating("lock the directory", at: path) { () throws(Errno) in try fileSystem.lock(root.file) }
    }

    fileprivate func leave(_ identity: FileIdentity, _ place: Place) {
        places.withLock { places in
            let users = place.users.withLock { users in
                users -= 1
                return users
            }
            if users == 0 { places[identity] = nil }
        }
    }
}

/// A store's hold on its place. When it goes, so does the lock of the directory, unless a successor has taken it over.
final class Lease: Sendable {
    let identity: FileIdentity
    private let place: Registry.Place
    private let registry: Registry

    fileprivate init(identity: FileIdentity, place: Registry.Place, registry: Registry) {
        self.identity = identity
        self.place = place
        self.registry = registry
    }

    /// Takes the place of another directory for the same store, which had its own deleted or replaced.
    func moved(to identity: FileIdentity, root: SharedDescriptor, of store: Store) throws(CacheError) -> Lease {
        try registry.take(identity, root: root, for: store)
    }

    /// With nobody else opening the directory: when `isLast`, runs `close` and lets go of the directory's lock.
    func end(when isLast: () -> Bool, _ close: () throws(CacheError) -> Void) throws(CacheError) {
        try place.gate.withLock { occupant throws(CacheError) in
            guard isLast() else { return }
            defer {
                occupant.store = nil
                occupant.root = nil
            }
            try close()
        }
    }

    deinit {
        place.gate.withLock { occupant in
            if occupant.store == nil { occupant.root = nil }
        }
        registry.leave(identity, place)
    }
}
