import LarderFiles

/// The stores that are open in this process, by device and inode: two handles on one directory share one store.
final class StoreRegistry: Sendable {
    static let shared = StoreRegistry()

    private let places = Lock<[FileIdentity: Place]>([:])
    private let lastTicket = Lock(0)
    /// By ticket.
    private let stores = Lock<[Int: WeakStore]>([:])

    private struct WeakStore: Sendable {
        weak var store: Store?
        /// It may move to another directory, but never to another disk.
        let device: UInt64
    }

    /// The place of one directory. Its gate is held while a store is opened or closed there.
    final class Place: Sendable {
        /// The living store, and the descriptor that carries the directory's lock, which nobody else refers to. A store
        /// that is just going leaves the lock to its successor.
        ///
        /// Under the gate `store` is read by `StoreRegistry.store` alone, which keeps it until the gate is open again: were
        /// that the last reference, the store's lease would ask for the gate. All else goes by the ticket.
        fileprivate struct Occupant {
            weak var store: Store?
            var lock: DirectoryLock?
            var ticket = 0

            init() {}

            init(_ store: Store, lock: DirectoryLock, ticket: Int) {
                self.store = store
                self.lock = lock
                self.ticket = ticket
            }
        }

        fileprivate let gate = Lock(Occupant())
        fileprivate let users = Lock(0)
    }

    /// Returns the living store of a directory, or opens one; atomically.
    ///
    /// `open` is called with the directory locked, under the gate of this directory alone.
    func store(
        of identity: FileIdentity, root: SharedDescriptor, in fileSystem: any FileSystem, path: String,
        join: (Store) throws(CacheError) -> Void, open: () throws(CacheError) -> Store
    ) throws(CacheError) -> Store {
        let place = enter(identity)
        // Outlives the gate: were ours the last reference, its lease would ask for the gate again.
        var living: Store?
        defer { withExtendedLifetime(living) {} }
        do {
            return try place.gate.withLock { occupant throws(CacheError) in
                living = occupant.store
                if let store = living {
                    try join(store)
                    leave(identity, place)
                    return store
                }
                let lock = if let lock = occupant.lock { lock } else { try lock(root, in: fileSystem, path: path) }
                let store = try open()
                try join(store)
                let lease = Lease(identity: identity, place: place, registry: self, ticket: takeTicket())
                store.lease = lease
                stores.withLock { $0[lease.ticket] = WeakStore(store: store, device: identity.device) }
                occupant = Place.Occupant(store, lock: lock, ticket: lease.ticket)
                return store
            }
        } catch {
            leave(identity, place)
            throw error
        }
    }

    /// The living stores on a device.
    func stores(onDevice device: UInt64) -> [Store] {
        // Asked for outside of the lock: ours may become the last reference to a store, and release what users gave it.
        let known = stores.withLock { $0 }.filter { $0.value.device == device }
        let dead = known.filter { $0.value.store == nil }.keys
        stores.withLock { stores in for ticket in dead { stores[ticket] = nil } }
        return known.values.compactMap(\.store)
    }

    /// Takes the place of a directory for a store whose own was deleted, if `move` answers true. Nobody can join it
    /// there before.
    ///
    /// Nothing is done when somebody has that place, or is just opening or closing there: nobody is waited for, who
    /// might wait for the caller. `lease` outlives the gate, as it asks for it when it goes.
    fileprivate func take(
        _ identity: FileIdentity, root: SharedDescriptor, for store: Store, lease: inout Lease?,
        _ move: (Lease) throws(CacheError) -> Bool
    ) throws(CacheError) -> Bool {
        let place = enter(identity)
        let next = Lease(identity: identity, place: place, registry: self, ticket: takeTicket())
        lease = next
        let isMoved = try place.gate.withLockIfAvailable { occupant throws(CacheError) in
            guard occupant.lock == nil else { return false }
            let lock = try lock(root, in: store.fileSystem, path: store.path)
            guard try move(next) else { return false }
            occupant = Place.Occupant(store, lock: lock, ticket: next.ticket)
            return true
        }
        return isMoved ?? false
    }

    private func takeTicket() -> Int {
        lastTicket.withLock { ticket in
            ticket += 1
            return ticket
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

    /// Locks a directory through a descriptor of its own, so that the lock ends when the registry says, and not when
    /// the last reader lets go of the directory.
    private func lock(
        _ root: SharedDescriptor, in fileSystem: any FileSystem, path: String
    ) throws(CacheError) -> DirectoryLock {
        let own = try translating("lock the directory", at: path) { () throws(Errno) -> DirectoryLock? in
            let own = SharedDescriptor(try fileSystem.open(.text("."), in: root.file, for: .directory))
            return try fileSystem.lock(own.file) ? DirectoryLock(own, in: fileSystem) : nil
        }
        guard let own else { throw .directoryInUse(path) }
        return own
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

/// The lock of a directory, let go of when the value goes.
///
/// Explicitly: a program that this one is just starting has a copy of the descriptor until it runs, and would keep the
/// lock.
private final class DirectoryLock: Sendable {
    private let descriptor: SharedDescriptor
    private let fileSystem: any FileSystem

    init(_ descriptor: SharedDescriptor, in fileSystem: any FileSystem) {
        self.descriptor = descriptor
        self.fileSystem = fileSystem
    }

    deinit {
        fileSystem.unlock(descriptor.file)
    }
}

/// A store's hold on its place. When it goes, so does the lock of the directory, unless a successor has taken it over.
final class Lease: Sendable {
    let identity: FileIdentity
    private let place: StoreRegistry.Place
    private let registry: StoreRegistry
    fileprivate let ticket: Int

    fileprivate init(identity: FileIdentity, place: StoreRegistry.Place, registry: StoreRegistry, ticket: Int) {
        self.ticket = ticket
        self.identity = identity
        self.place = place
        self.registry = registry
    }

    /// Takes the place of another directory for the same store, whose own was deleted, and gives this place up, if
    /// `move` answers true. Meanwhile nobody can open or close a store in either place; when somebody is just doing so,
    /// nothing is done.
    func move(
        to identity: FileIdentity, root: SharedDescriptor, of store: Store, _ move: (Lease) throws(CacheError) -> Bool
    ) throws(CacheError) {
        var next: Lease?
        defer { withExtendedLifetime(next) {} }
        _ = try place.gate.withLockIfAvailable { occupant throws(CacheError) in
            guard occupant.ticket == ticket else { return }
            if try registry.take(identity, root: root, for: store, lease: &next, move) { vacate(&occupant) }
        }
    }

    /// With nobody else opening the directory: when `isLast`, runs `close` and lets go of the directory's lock.
    func end(when isLast: () -> Bool, close: () throws(CacheError) -> Void) throws(CacheError) {
        try place.gate.withLock { occupant throws(CacheError) in
            guard isLast() else { return }
            defer { vacate(&occupant) }
            try close()
        }
    }

    /// Lets go of the directory's lock: the store has moved on.
    func release() {
        place.gate.withLock { vacate(&$0) }
    }

    /// Empties the place, unless it is another's by now.
    private func vacate(_ occupant: inout StoreRegistry.Place.Occupant) {
        if occupant.ticket == ticket { occupant = StoreRegistry.Place.Occupant() }
    }

    deinit {
        release()
        registry.leave(identity, place)
    }
}
