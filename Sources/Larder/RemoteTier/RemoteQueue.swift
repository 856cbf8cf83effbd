import LarderFiles

/// The changes that wait to be sent, the latest of each key. Bounded.
///
/// When the queue is full, or a change too old for the server's tombstones, one clear of the namespace takes the place
/// of all changes: dropping a removal alone would let the value return.
struct RemoteQueue: Sendable {
    enum Operation: Sendable, Equatable { case write, renew, expire, remove }

    struct Change: Sendable, Equatable {
        var operation: Operation
        /// The version under which it is sent.
        var version: RemoteVersion
        /// The version that the local copy bears.
        let stamp: RemoteVersion
        let queued: Timestamp
        /// The connection during which it was made; 0: none yet, or another machine has changed the key since.
        var connection: UInt64
        /// Whether the version is on the server's clock.
        let isTimed: Bool
        /// Whether it brings a fetched value: where it cannot, it changes nothing for others that have fetched theirs.
        var isFetched = false
        /// The tags of the value that it brings, and maybe those of others.
        var tags: [Key] = []

        /// Turns a change of a value that was never sent into one that sends it: the server has another, or none.
        fileprivate mutating func includeUnsentValue() {
            if operation == .renew || operation == .expire { operation = .write }
        }

        /// It may have to send the value of the other one.
        fileprivate mutating func includeTags(of other: Change) {
            if !other.tags.isEmpty { tags += other.tags.filter { !tags.contains($0) } }
        }
    }

    struct Clear: Sendable, Equatable {
        var scope: Key?
        var version: RemoteVersion
        let isExpiry: Bool
        let queued: Timestamp
        let isTimed: Bool

        /// Takes the place of others: of two callers at a time, the one with the lower version may come last.
        fileprivate mutating func cover(_ others: [Clear]) {
            version = others.reduce(version) { max($0, $1.version) }
        }
    }

    let limit: Int
    private(set) var changes: [Key: Change] = [:]
    private(set) var clears: [Clear] = []
    private(set) var sending: [Key: Change] = [:]
    private(set) var dropped = 0
    /// How many have been sent, or refused.
    private(set) var finished = 0
    /// The keys whose turn it is, the oldest change last. Some may have been sent since.
    private var turns: [Key] = []

    init(limit: Int) {
        self.limit = max(1, limit)
    }

    var count: Int { changes.count + clears.count + sending.count }
    var isEmpty: Bool { changes.isEmpty && clears.isEmpty }

    /// The latest change of a key that the server may not have yet.
    func pending(_ key: Key) -> Change? { changes[key] ?? sending[key] }

    /// Adds a change. Returns false when the queue was full, and is now one clear.
    mutating func add(_ change: Change, _ key: Key) -> Bool {
        if let other = changes[key], other.version > change.version {
            // Two callers at a time: the state here decides, whatever it is by now.
            changes[key]?.operation = .write
            changes[key]?.isFetched = other.isFetched && change.isFetched
            changes[key]?.includeTags(of: change)
            return true
        }
        var change = change
        if let other = pending(key) {
            if other.operation == .write { change.includeUnsentValue() }
            change.isFetched = change.isFetched && other.isFetched
            change.includeTags(of: other)
        }
        changes[key] = change
        if count <= limit { return true }
        return collapse(change.version, at: change.queued, isTimed: change.isTimed)
    }

    /// Notes that another machine has changed a key, so that the change here may be the older one.
    mutating func noteChange(_ key: Key) {
        changes[key]?.connection = 0
        sending[key]?.connection = 0
    }

    /// The same for all keys, or for those with a tag.
    mutating func noteChanges(tagged tag: Key? = nil) {
        func isMeant(_ change: Change) -> Bool { tag.map { change.tags.contains($0) } ?? true }
        for (key, change) in changes where isMeant(change) { changes[key]?.connection = 0 }
        for (key, change) in sending where isMeant(change) { sending[key]?.connection = 0 }
    }

    mutating func add(_ clear: Clear) -> Bool {
        var clear = clear
        if clear.scope == nil, !clear.isExpiry {
            // It covers what was made before.
            changes = changes.filter { $0.value.version > clear.version }
            clear.cover(clears)
            clears = []
        } else {
            let isSame = { (other: Clear) in other.scope == clear.scope && other.isExpiry == clear.isExpiry }
            let same = clears.filter(isSame)
            clears.removeAll(where: isSame)
            clear.cover(same)
        }
        clears.append(clear)
        if count <= limit { return true }
        return collapse(clear.version, at: clear.queued, isTimed: clear.isTimed)
    }

    /// Replaces everything that waits by one clear of the namespace.
    private mutating func collapse(_ version: RemoteVersion, at now: Timestamp, isTimed: Bool) -> Bool {
        dropped += changes.count + clears.count
        var clear = Clear(scope: nil, version: version, isExpiry: false, queued: now, isTimed: isTimed)
        clear.cover(clears)
        // Not all come in their order: a fetch has the version of its beginning.
        clear.version = changes.values.reduce(clear.version) { max($0, $1.version) }
        (changes, clears) = ([:], [clear])
        return false
    }

    /// Drops what is older than `age`, in milliseconds; returns false when there was something. Its place takes one
    /// clear with the given version.
    mutating func dropOld(_ age: Int64, version: RemoteVersion, at now: Timestamp) -> Bool {
        let isOld = { (queued: Timestamp) in now.millisecondsSince(queued) > age }
        let old = changes.values.count { isOld($0.queued) } + clears.count { isOld($0.queued) && $0.scope != nil }
        if old == 0 { return true }
        return collapse(version, at: now, isTimed: true)
    }

    /// Takes the oldest clear, which is sent before everything else.
    func firstClear() -> Clear? { clears.first }

    mutating func finish(_ clear: Clear) {
        if let index = clears.firstIndex(of: clear) { clears.remove(at: index) }
        finished += 1
    }

    /// Takes up to `most` changes to send, the oldest first; none of a key that is being sent.
    mutating func take(_ most: Int) -> [(key: Key, change: Change)] {
        // Sorted only when all that waited at the last time have had their turn: O(log n) for each change.
        if turns.isEmpty { turns = changes.sorted { $0.value.version > $1.value.version }.map(\.key) }
        var taken: [(key: Key, change: Change)] = []
        while taken.count < most, let key = turns.popLast() {
            guard sending[key] == nil, let change = changes.removeValue(forKey: key) else { continue }
            sending[key] = change
            taken.append((key, change))
        }
        return taken
    }

    /// Ends the sending of a change; one that failed waits again, unless there is a newer one.
    mutating func finish(_ key: Key, failed: Bool) {
        guard let change = sending.removeValue(forKey: key) else { return }
        guard failed else {
            finished += 1
            return
        }
        if changes[key] == nil { changes[key] = change }
        if change.operation == .write { changes[key]?.includeUnsentValue() }
        if !change.isFetched { changes[key]?.isFetched = false }
        changes[key]?.includeTags(of: change)
    }
}

extension RemoteQueue.Clear {
    init(_ scope: Key?, _ stamp: RemoteStamp, isExpiry: Bool, at now: Timestamp) {
        self.init(scope: scope, version: stamp.version, isExpiry: isExpiry, queued: now, isTimed: stamp.isTimed)
    }
}
