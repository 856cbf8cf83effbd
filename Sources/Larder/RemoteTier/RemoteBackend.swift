import LarderFiles
import LarderFoundation

/// The disk with the memory above it, and a remote tier below: it is asked after a miss, and told of every change.
struct RemoteBackend<Value: Sendable>: CacheBackend {
    let local: TieredBackend<Value>
    let link: RemoteLink
    let questions = RemoteQuestions<Value>()

    var disk: DiskCache { local.disk }
    var flights: Flights { local.flights }
    var clock: any Clock { local.clock }
    var defaults: CacheDefaults { local.defaults }
    var counts: BackendCounters { local.counts }
    var readEvents: ReadEvents? { local.readEvents }
    var isProvisional: Bool { local.isProvisional }
    var hasRemoteTier: Bool { true }

    func key(_ text: String) -> Key { local.key(text) }
    var slides: Bool { local.slides }
    func isUndecodable(_ entry: IndexEntry, _ key: Key) -> Bool { local.isUndecodable(entry, key) }
    func follow() { local.follow() }
    func settle(_ keys: [Key]) async { await local.settle(keys) }
    func findInMemory(_ text: String) -> Lookup<Value>? { local.findInMemory(text) }
    func countMissInMemory() { local.countMissInMemory() }
    func countHit(_ found: Lookup<Value>) { local.countHit(found) }
    func takeBackMiss(of key: Key, _ found: Lookup<Value>, isCountedOnDisk: Bool) {
        local.takeBackMiss(of: key, found, isCountedOnDisk: isCountedOnDisk)
    }
    func report(_ failure: CacheError, of keys: [Key]) { local.report(failure, of: keys) }

    func countMiss(of key: Key, isCountedOnDisk: Bool) {
        local.countMiss(of: key, isCountedOnDisk: isCountedOnDisk)
    }

    func findStaleInMemory(_ text: String, _ windows: StaleWindows) -> Lookup<Value>? {
        local.findStaleInMemory(text, windows)
    }

    func lookupOnDisk(_ key: Key) async -> Lookup<Value>? {
        if let found = await bring([key])[0] { return found }
        if mayReturn(key) { return await local.lookupOnDisk(key) }
        local.countMiss(of: key, isCountedOnDisk: false)
        return nil
    }

    func lookupsOnDisk(_ keys: [Key]) async -> [Lookup<Value>?] {
        var found = [Lookup<Value>?](repeating: nil, count: keys.count)
        let rest = keys.indices.filter { mayReturn(keys[$0]) }
        if rest.isEmpty { return found }
        for (index, lookup) in zip(rest, await local.lookupsOnDisk(rest.map { keys[$0] })) { found[index] = lookup }
        return found
    }

    func freshness(of key: Key, at now: Timestamp) -> Freshness {
        mayReturn(key) ? local.freshness(of: key, at: now) : .missing
    }

    func storedValue(for key: Key) async -> StoredValue<Value>? {
        mayReturn(key) ? await local.storedValue(for: key) : nil
    }

    func isCurrent(_ stored: StoredValue<Value>, _ key: Key) -> Bool {
        local.isCurrent(stored, key) && mayReturn(key)
    }

    func current(_ key: Key) async throws(CacheError) -> CurrentValue<Value> {
        let left = await bringing(key)
        let mayReturn = mayReturn(key)
        var current = try await local.current(key)
        current.patience = left
        // It is outdated, and replaced all the same.
        if !mayReturn { current.stored = nil }
        return current
    }

    /// Asks for a key. Returns how much time for the remote tier is left to the call.
    private func bringing(_ key: Key) async -> Duration {
        let begun = clock.now
        _ = await bring([key])
        return link.policy.timeout - .milliseconds(max(0, clock.now.millisecondsSince(begun)))
    }

    private func mayReturn(_ key: Key) -> Bool {
        guard let entry = knownEntry(key) else { return true }
        return link.mayReturn(key, entry)
    }

    func knownEntry(_ key: Key) -> IndexEntry? {
        disk.readableStore?.recovery.knownEntry(key, at: disk.now)
    }
}

/// Changes by callers. They wait until the server has them, but not for longer than the timeout.
extension RemoteBackend {
    func set(_ values: [(key: String, value: Value)], _ options: SetOptions) async throws(CacheError) {
        let stamp = try link.newStamp()
        var options = options
        options.unknown = stamp.field
        let end = roomEnd(values.count)
        for slice in local.slices(values, most: link.policy.queueLimit / 2) {
            await link.awaitRoom(slice.count, until: end)
            defer { link.endRoom(slice.count) }
            try await set(slice, of: values, options, stamp)
        }
        await link.awaitSent(values.map { key($0.key) }, left(until: end))
    }

    /// The time until which a call waits for room in the queue; nil: for as long as the server takes changes.
    private func roomEnd(_ count: Int) -> Timestamp? {
        guard count <= link.policy.queueLimit / 2 || count == 1 else { return nil }
        return clock.now.advanced(byMilliseconds: link.policy.timeout.milliseconds)
    }

    /// The time for the remote tier that is left to a call; nil: all.
    private func left(until end: Timestamp?) -> Duration? {
        end.map { .milliseconds($0.millisecondsSince(clock.now)) }
    }

    private func set(
        _ slice: ArraySlice<(key: String, value: Value)>, of values: [(key: String, value: Value)],
        _ options: SetOptions, _ stamp: RemoteStamp
    ) async throws(CacheError) {
        let keys = slice.map { key($0.key) }
        let stores = keys.map { link.beginStoring($0, stamp) }
        defer { for (key, store) in zip(keys, stores) { link.endStoring(key, store) } }
        var failure: CacheError?
        do throws(CacheError) {
            try await local.set(slice, of: values, options)
        } catch {
            failure = error
        }
        for (key, store) in zip(keys, stores) {
            sendStored(key, stamp, since: store.number, isRemovedIfMissing: failure == nil)
        }
        if let failure { throw failure }
    }

    /// Sends the change of a key if its copy bears this stamp; a value whose life was over at once was removed.
    private func sendStored(
        _ key: Key, _ stamp: RemoteStamp, since number: UInt64, isRemovedIfMissing: Bool = true
    ) {
        let entry = knownEntry(key)
        if let entry, entry.remoteStamp?.version == stamp.version {
            link.send(.write, key, stamp, entry.tags, since: number)
        } else if entry == nil, isRemovedIfMissing {
            link.send(.remove, key, stamp)
        }
    }

    func replace(
        _ current: CurrentValue<Value>, with value: Value?, _ options: SetOptions, _ watch: Watch
    ) async throws(CacheError) -> Bool {
        let stamp = try link.newStamp()
        var options = options
        options.unknown = stamp.field
        let key = watch.key
        let store = link.beginStoring(key, stamp)
        defer { link.endStoring(key, store) }
        guard try await local.replace(current, with: value, options, watch) else { return false }
        sendStored(key, stamp, since: store.number)
        await link.awaitSent([key], current.patience)
        return true
    }

    func remove(_ text: String) async throws(CacheError) -> Bool {
        let end = roomEnd(1)
        let isRemoved = try await removing(text, until: end)
        await link.awaitSent([key(text)], left(until: end))
        return isRemoved
    }

    func remove(_ texts: [String]) async throws(CacheError) -> Int {
        let end = roomEnd(texts.count)
        let count = try await count(texts) { (text) async throws(CacheError) in
            try await removing(text, until: end)
        }
        await link.awaitSent(texts.map { key($0) }, left(until: end))
        return count
    }

    private func removing(_ text: String, until end: Timestamp?) async throws(CacheError) -> Bool {
        await link.awaitRoom(1, until: end)
        defer { link.endRoom(1) }
        let key = key(text)
        // The answer of the call is about this machine's copy, as far as it counts.
        let wasReturned = mayReturn(key)
        let stamp = try link.newStamp()
        return try await changing(key, stamp) { () async throws(CacheError) in
            let isRemoved = try await local.remove(text)
            link.send(.remove, key, stamp)
            return isRemoved && wasReturned
        }
    }

    /// Runs the local step of a change and queues it. From before the one until after the other, no answer of the
    /// server brings an older value back.
    private func changing(
        _ key: Key, _ stamp: RemoteStamp, _ body: () async throws(CacheError) -> Bool
    ) async throws(CacheError) -> Bool {
        let change = link.beginStoring(key, stamp)
        defer { link.endStoring(key, change) }
        return try await body()
    }

    func removeAll() async throws(CacheError) {
        try await clearing(nil, isExpiry: false) { () async throws(CacheError) in try await local.removeAll() }
    }

    func removeAll(tagged tag: String) async throws(CacheError) {
        try await clearing(key(tag), isExpiry: false) { () async throws(CacheError) in
            try await local.removeAll(tagged: tag)
        }
    }

    func expireAll() async throws(CacheError) {
        try await clearing(nil, isExpiry: true) { () async throws(CacheError) in try await local.expireAll() }
    }

    func expireAll(tagged tag: String) async throws(CacheError) {
        try await clearing(key(tag), isExpiry: true) { () async throws(CacheError) in
            try await local.expireAll(tagged: tag)
        }
    }

    private func clearing(
        _ tag: Key?, isExpiry: Bool, _ body: () async throws(CacheError) -> Void
    ) async throws(CacheError) {
        let stamp = try link.newStamp()
        let clear = link.beginClear(tag, stamp, isExpiry: isExpiry)
        do {
            defer { link.endClear(clear) }
            try await body()
            link.sendClear(tag, stamp, isExpiry: isExpiry)
        }
        await link.awaitSent(.clears)
    }

    func expire(_ text: String) async throws(CacheError) -> Bool {
        let key = key(text)
        let wasReturned = mayReturn(key)
        let stamp = try link.newStamp()
        let wasFresh = try await changing(key, stamp) { () async throws(CacheError) in
            let wasFresh = try await local.expire(text)
            link.send(.expire, key, stamp)
            return wasFresh
        }
        await link.awaitSent([key])
        return wasFresh && wasReturned
    }

    func setTimeToLive(_ ttl: TimeToLive, _ text: String) async throws(CacheError) -> Bool {
        let key = key(text)
        let left = await bringing(key)
        let stamp = try link.newStamp()
        let isChanged = try await changing(key, stamp) { () async throws(CacheError) in
            guard mayReturn(key), try await local.setTimeToLive(ttl, text) else { return false }
            let entry = knownEntry(key)
            link.send(entry == nil ? .remove : .renew, key, stamp, entry?.tags ?? [])
            return true
        }
        if isChanged { await link.awaitSent([key], left) }
        return isChanged
    }
}

/// Changes by fetches, which wait for nothing but a place in a full queue. Their version is that of the beginning of
/// the fetch: what others have changed since is newer.
extension RemoteBackend {
    func keep(_ value: Value, _ key: Key, _ options: StoreOptions, by flight: Flight) async {
        await keeping(key, options, flight) { await local.keep(value, key, $0, by: flight) }
    }

    func keepAbsence(_ key: Key, _ options: StoreOptions, by flight: Flight) async {
        await keeping(key, options, flight) { await local.keepAbsence(key, $0, by: flight) }
    }

    func renew(_ stored: StoredValue<Value>, _ key: Key, _ options: StoreOptions, by flight: Flight) async {
        await keeping(key, options, flight) { await local.renew(stored, key, $0, by: flight) }
    }

    func remove(_ key: Key, by flight: Flight) async {
        guard let fetch = fetch(key, flight) else { return await local.remove(key, by: flight) }
        let change = link.beginStoring(key, fetch.stamp, .fetch, since: fetch.number)
        defer { link.endStoring(key, change) }
        let isRegistered = flights.isRegistered(flight, for: key)
        await local.remove(key, by: flight)
        if isRegistered { link.send(.remove, key, fetch.stamp) }
    }

    private func keeping(
        _ key: Key, _ options: StoreOptions, _ flight: Flight, _ body: (StoreOptions) async -> Void
    ) async {
        guard let fetch = fetch(key, flight) else { return await body(options) }
        var options = options
        options.unknown = fetch.stamp.field
        await link.awaitRoom(1, until: clock.now)
        defer { link.endRoom(1) }
        let store = link.beginStoring(key, fetch.stamp, .fetch, since: fetch.number)
        defer { link.endStoring(key, store) }
        let before = knownEntry(key)
        await body(options)
        guard let entry = knownEntry(key) else {
            if !options.toDisk, flights.isRegistered(flight, for: key) { link.send(.remove, key, fetch.stamp) }
            return
        }
        if entry.remoteStamp?.version == fetch.stamp.version {
            link.send(.write, key, fetch.stamp, entry.tags, since: fetch.number, isFetched: true)
        } else if let before, entry.isSameValue(as: before), entry.change != before.change {
            // Only its life is new.
            link.send(.renew, key, fetch.stamp, entry.tags, since: fetch.number, isFetched: true)
        }
    }

    private func fetch(_ key: Key, _ flight: Flight) -> RemoteFetch.Part? {
        (flight.remotePart as? RemoteFetch)?.part(key)
    }
}
