import LarderFiles

/// The directories that are open in this process, by device and inode, each with its one occupant: two handles on one
/// directory share a store.
final class DirectoryRegistry<Occupant: AnyObject & Sendable>: Sendable {
    /// A directory to occupy.
    struct Location {
        let identity: FileIdentity
        let root: OwnedDescriptor
        let fileSystem: any FileSystem
        /// For messages only.
        let path: String
        /// Whether other processes may use the directory at the same time.
        let isShared: Bool
        /// Throws when the directory is not a cache.
        let check: @Sendable () throws(CacheError) -> Void

        fileprivate func lock() throws(CacheError) -> DirectoryLock {
            if isShared { return try .shared(root, identity, in: fileSystem, path: path, checkingCache: check) }
            let own = try translating("lock the directory", at: path) { () throws(Errno) in
                try DirectoryLock.alone(root, in: fileSystem)
            }
            guard let own else { throw .directoryInUse(path) }
            return own
        }
    }

    fileprivate struct WeakOccupant: Sendable {
        weak var object: Occupant?
        /// An occupant may move to another directory, but never to another disk.
        let device: UInt64
    }

    private let places = ProcessLock<[FileIdentity: Place]>([:])
    private let lastTicket = ProcessLock(0)
    /// By ticket.
    fileprivate let occupants = ProcessLock<[Int: WeakOccupant]>([:])

    /// The place of one directory. Its gate is held while the directory is opened or closed.
    final class Place: Sendable {
        /// The living occupant and the only reference to the directory lock. An occupant that is being deallocated
        /// leaves the lock to its successor.
        ///
        /// Under the gate only `occupant(of:)` reads `occupant`, and it keeps the reference until the gate is open
        /// again: releasing the last reference ends the lease, which takes the gate. All other code compares tickets.
        fileprivate struct State {
            weak var occupant: Occupant?
            var lock: DirectoryLock?
            var ticket = 0
        }

        fileprivate let gate = Lock(State())
        fileprivate let users = Lock(0)
    }

    /// Returns the living occupant of a directory after calling `join` with it, or opens one; atomically.
    ///
    /// `open` is called with the directory locked, under the gate of this directory alone. It gives the lease to the
    /// occupant.
    func occupant(
        of location: Location, join: (Occupant) throws(CacheError) -> Void,
        open: (Lease, DirectoryLock) throws(CacheError) -> Occupant
    ) throws(CacheError) -> Occupant {
        let place = enter(location.identity)
        // These outlive the gate: an occupant or a lease takes the gate when its last reference is released.
        var living: Occupant?
        var parents: Occupant?
        var lease: Lease?
        defer { withExtendedLifetime((living, parents, lease)) {} }
        do {
            return try place.gate.withLock { state throws(CacheError) in
                // In a forked child, the parent's occupant has no hold on the directory.
                if state.lock?.isOwn == false { parents = state.occupant } else { living = state.occupant }
                if let living {
                    try join(living)
                    leave(location.identity, place)
                    return living
                }
                let lock = try lock(location, replacing: state.lock)
                let new = Lease(identity: location.identity, place: place, registry: self, ticket: takeTicket())
                lease = new
                let occupant = try open(new, lock)
                living = occupant
                note(occupant, new, on: location)
                state = Place.State(occupant: occupant, lock: lock, ticket: new.ticket)
                return occupant
            }
        } catch {
            // A lease leaves when it is released.
            if lease == nil { leave(location.identity, place) }
            throw error
        }
    }

    /// Makes an occupant known until its lease is released.
    private func note(_ occupant: Occupant, _ lease: Lease, on location: Location) {
        let noted = WeakOccupant(object: occupant, device: location.identity.device)
        occupants.withLock { $0[lease.ticket] = noted }
    }

    /// The living occupants on a device.
    func occupants(onDevice device: UInt64) -> [Occupant] {
        // Outside of the lock: this reference to an occupant may be the last one, and releasing it may run user code.
        occupants.withLock { $0 }.inOrder { $0.key }.map(\.value).filter { $0.device == device }.compactMap(\.object)
    }

    /// Takes the place of a directory for an occupant whose own was deleted, if `move` returns true. No handle can join
    /// it there earlier.
    ///
    /// Does nothing when the place is taken, or while another thread is opening or closing it: waiting could deadlock.
    /// `lease` must outlive the gate, because its release takes the gate.
    fileprivate func take(
        _ location: Location, for occupant: Occupant, lease: inout Lease?,
        _ move: (Lease, DirectoryLock) throws(CacheError) -> Bool
    ) throws(CacheError) -> Bool {
        let place = enter(location.identity)
        let next = Lease(identity: location.identity, place: place, registry: self, ticket: takeTicket())
        lease = next
        let isMoved = try place.gate.withLockIfAvailable { state throws(CacheError) in
            guard state.lock == nil else { return false }
            let lock = try location.lock()
            guard try move(next, lock) else { return false }
            note(occupant, next, on: location)
            state = Place.State(occupant: occupant, lock: lock, ticket: next.ticket)
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

    /// Locks a directory. An occupant that is being deallocated leaves its lock; but not its place among the processes,
    /// in which it may have left a part of its work.
    private func lock(_ location: Location, replacing old: DirectoryLock?) throws(CacheError) -> DirectoryLock {
        guard let old else { return try location.lock() }
        if !location.isShared, old.isAlone, old.isOwn { return old }
        old.release()
        return try location.lock()
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

extension DirectoryRegistry {
    /// An occupant's hold on its place. Its release also releases the directory lock, unless a successor has taken that
    /// over.
    final class Lease: Sendable {
        let identity: FileIdentity
        private let place: Place
        private let registry: DirectoryRegistry
        fileprivate let ticket: Int

        fileprivate init(identity: FileIdentity, place: Place, registry: DirectoryRegistry, ticket: Int) {
            self.ticket = ticket
            self.identity = identity
            self.place = place
            self.registry = registry
        }

        /// Moves the occupant, whose directory was deleted, to the place of another directory and gives up this one, if
        /// `move` returns true. Meanwhile neither directory can be opened or closed. Does nothing while another thread
        /// is opening or closing one of them.
        func move(
            to location: Location, of occupant: Occupant,
            _ move: (Lease, DirectoryLock) throws(CacheError) -> Bool
        ) throws(CacheError) {
            var next: Lease?
            defer { withExtendedLifetime(next) {} }
            _ = try place.gate.withLockIfAvailable { state throws(CacheError) in
                guard state.ticket == ticket else { return }
                if try registry.take(location, for: occupant, lease: &next, move) { vacate(&state) }
            }
        }

        /// When `isLast` returns true, runs `close` and releases the directory lock. Meanwhile the directory cannot be
        /// opened.
        func end(when isLast: () -> Bool, close: () throws(CacheError) -> Void) throws(CacheError) {
            try place.gate.withLock { state throws(CacheError) in
                guard isLast() else { return }
                defer { vacate(&state) }
                try close()
            }
        }

        /// Empties the place, unless another occupant has taken it.
        private func vacate(_ state: inout Place.State) {
            if state.ticket == ticket { state = Place.State() }
        }

        deinit {
            place.gate.withLock { vacate(&$0) }
            registry.occupants.withLock { $0[ticket] = nil }
            registry.leave(identity, place)
        }
    }
}
