import LarderFiles
import LarderFoundation

/// The disk with the memory above it, and a shared tier below: it is asked after a miss, and told of every change.
struct SharedBackend<Value: Sendable>: CacheBackend {
    let local: TieredBackend<Value>
    let link: SharedLink
    let questions = SharedQuestions<Value>()

    var disk: DiskCache { local.disk }
    var flights: Flights { local.flights }
    var clock: any Clock { local.clock }
    var defaults: CacheDefaults { local.defaults }
    var counts: BackendCounters { local.counts }
    var readEvents: ReadEvents? { local.readEvents }
    var isProvisional: Bool { local.isProvisional }
    var sharedLink: SharedLink? { link }

    func key(_ text: String) -> Key { local.key(text) }
    func follow() { local.follow() }
    func settle(_ keys: [Key]) async { await local.settle(keys) }
    func findInMemory(_ text: String) -> Lookup<Value>? { local.findInMemory(text) }
    func countMissInMemory() { local.countMissInMemory() }
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
        var found = await bring(keys)
        let rest = keys.indices.filter { found[$0] == nil && mayReturn(keys[$0]) }
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
        _ = await bring([key])
        if mayReturn(key) { return try await local.current(key) }
        var current = try await local.current(key)
        // It is outdated, and replaced all the same.
        current.stored = nil
        return current
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
extension SharedBackend {
    func set(_ values: [(key: String, value: Value)], _ options: SetOptions) async throws(CacheError) {
        let version = link.nextVersion()
        var options = options
        options.stamp = link.stamp(version, options.tags.map { key($0) })
        let keys = values.map { key($0.key) }
        try await storing(keys, version) { () async throws(CacheError) in try await local.set(values, options) }
        await link.awaitSent(keys)
    }

    /// Runs `body`, which stores values of a version, and sends what it has stored.
    func storing<Result: Sendable>(
        _ keys: [Key], _ version: SharedVersion, _ body: () async throws(CacheError) -> Result
    ) async throws(CacheError) -> Result {
        let stores = keys.map { link.beginStoring($0, version) }
        defer { for (key, store) in zip(keys, stores) { link.endStoring(key, store) } }
        let result: Swift.Result<Result, CacheError>
        do throws(CacheError) {
            result = .success(try await body())
        } catch {
            result = .failure(error)
        }
        let isDone = if case .success = result { true } else { false }
        for (key, store) in zip(keys, stores) {
            sendStored(key, version, since: store.number, isRemovedIfMissing: isDone)
        }
        return try result.get()
    }

    /// Sends the change of a key if its copy bears this version; a value whose life was over at once was removed.
    private func sendStored(
        _ key: Key, _ version: SharedVersion, since number: UInt64, isRemovedIfMissing: Bool = true
    ) {
        let entry = knownEntry(key)
        if let entry, entry.sharedStamp?.version == version {
            link.confirm(key, entry.tags, since: number)
            link.send(.write, key, version, entry.tags)
        } else if entry == nil, isRemovedIfMissing {
            link.send(.remove, key, version)
        }
    }

    func replace(
        _ current: CurrentValue<Value>, with value: Value?, _ options: SetOptions, _ watch: Watch
    ) async throws(CacheError) -> Bool {
        let version = link.nextVersion()
        var options = options
        let tags = current.stored?.tags ?? options.tags.map { self.key($0) }
        options.stamp = link.stamp(version, tags)
        let key = watch.key
        let store = link.beginStoring(key, version)
        defer { link.endStoring(key, store) }
        guard try await local.replace(current, with: value, options, watch) else { return false }
        sendStored(key, version, since: store.number)
        await link.awaitSent([key])
        return true
    }

    func remove(_ text: String) async throws(CacheError) -> Bool {
        let key = key(text)
        // The answer of the call is about this machine's copy, as far as it counts.
        let wasReturned = mayReturn(key)
        let version = link.nextVersion()
        let isRemoved = try await local.remove(text)
        link.send(.remove, key, version)
        await link.awaitSent([key])
        return isRemoved && wasReturned
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
        let version = link.nextVersion()
        try await body()
        link.sendClear(tag, version, isExpiry: isExpiry)
        await link.awaitSent(.clears)
    }

    func expire(_ text: String) async throws(CacheError) -> Bool {
        let key = key(text)
        let wasReturned = mayReturn(key)
        let version = link.nextVersion()
        let wasFresh = try await local.expire(text)
        link.send(.expire, key, version)
        await link.awaitSent([key])
        return wasFresh && wasReturned
    }

    func setTimeToLive(_ ttl: TimeToLive, _ text: String) async throws(CacheError) -> Bool {
        let key = key(text)
        _ = await bring([key])
        guard mayReturn(key) else { return false }
        let version = link.nextVersion()
        guard try await local.setTimeToLive(ttl, text) else { return false }
        if let entry = knownEntry(key) {
            link.send(.renew, key, version, entry.tags)
        } else {
            link.send(.remove, key, version)
        }
        await link.awaitSent([key])
        return true
    }
}

/// Changes by fetches, which wait for nothing. Their version is that of the beginning of the fetch: what others have
/// changed since is newer.
extension SharedBackend {
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
        let isRegistered = flights.isRegistered(flight, for: key)
        await local.remove(key, by: flight)
        if isRegistered { link.send(.remove, key, fetch.version) }
    }

    private func keeping(
        _ key: Key, _ options: StoreOptions, _ flight: Flight, _ body: (StoreOptions) async -> Void
    ) async {
        guard let fetch = fetch(key, flight) else { return await body(options) }
        var options = options
        options.stamp = link.stamp(fetch.version, options.allTags)
        let store = link.beginStoring(key, fetch.version, since: fetch.number)
        defer { link.endStoring(key, store) }
        let before = knownEntry(key)
        await body(options)
        guard let entry = knownEntry(key) else { return }
        if entry.sharedStamp?.version == fetch.version {
            link.confirm(key, entry.tags, since: fetch.number)
            link.send(.write, key, fetch.version, entry.tags)
        } else if let before, entry.isSameValue(as: before), entry.change != before.change {
            // Only its life is new.
            link.confirm(key, entry.tags, since: fetch.number)
            link.send(.renew, key, fetch.version, entry.tags)
        }
    }

    private func fetch(_ key: Key, _ flight: Flight) -> SharedFetch.Part? {
        (flight.sharedPart as? SharedFetch)?.part(key)
    }
}
