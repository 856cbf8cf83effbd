import Larder

/// The memory of the server of a test, and its rules.
struct TestRemoteServerState: Sendable {
    struct Value: Sendable {
        var entry: RemoteEntry
        /// On the server's clock, in milliseconds since 1970; nil: never.
        var expires: Int64?
        var keptStale: Int64
        var stored: Int64
        let scopes: [RemoteScope]
        let generations: [String]

        func life(at now: Int64) -> RemoteLife {
            RemoteLife(remaining: expires.map { $0 - now }, keptStale: keptStale, age: max(0, now - stored))
        }
    }

    struct Item: Sendable {
        var version: RemoteVersion
        /// The version under which the value was written, before it was renewed.
        var base: RemoteVersion?
        /// Nil: a tombstone.
        var value: Value?
        /// The end of a tombstone.
        var end: Int64 = 0

        func isOver(at now: Int64) -> Bool {
            guard let value else { return now >= end }
            return value.expires.map { now >= $0 + value.keptStale } ?? false
        }
    }

    /// The generation of a namespace or a tag.
    struct Mark: Sendable {
        let id: String
        /// The version of the last clear; nil: none.
        var cleared: String?
        /// Since this version, no clear has been forgotten.
        let begun: String
    }

    /// The versions of the changes whose values end within a day, as many as Redis remembers.
    private struct Ended: Sendable {
        static let most = 100_000
        private var newer: [RemoteKey: RemoteVersion] = [:]
        private var older: [RemoteKey: RemoteVersion] = [:]
        /// The highest version that was forgotten.
        private var floor: RemoteVersion?

        mutating func note(_ key: RemoteKey, _ version: RemoteVersion) {
            if let known = self.version(of: key), version <= known { return }
            if newer.count >= Self.most {
                floor = ([floor].compactMap { $0 } + older.values).max()
                (older, newer) = (newer, [:])
            }
            newer[key] = version
        }

        func version(of key: RemoteKey) -> RemoteVersion? { [newer[key], older[key], floor].compactMap { $0 }.max() }
    }

    var items: [RemoteKey: Item] = [:]
    var marks: [RemoteScope: Mark] = [:]
    var leases: [RemoteKey: (holder: String, end: Int64)] = [:]
    private var ended = Ended()
    private var last = 0
    var epoch: String { "epoch-\(epochs).\(evictions)" }
    private var epochs = 1
    /// When the epoch began or something was evicted last, in milliseconds since 1970: since then nothing has been
    /// forgotten.
    private var begun: Int64
    /// Those in this epoch. A tombstone may have been among the evicted, so each begins another epoch for those who
    /// connect later.
    private var evictions = 0

    init(at time: Int64) {
        begun = time
    }

    private var tombstone: Int64 { RemoteTierPolicy.removalMemory.components.seconds * 1000 }

    /// The lowest version of a millisecond.
    private static func digits(_ time: Int64) -> String {
        let digits = String(time, radix: 16)
        return String(repeating: "0", count: 12 - digits.utf8.count) + digits + String(repeating: "0", count: 20)
    }

    private mutating func newID() -> String {
        last += 1
        return "g\(epochs).\(last)"
    }

    mutating func restart(at time: Int64) {
        (items, marks, leases, ended) = ([:], [:], [:], Ended())
        epochs += 1
        (begun, evictions) = (time, 0)
    }

    mutating func evict(_ key: RemoteKey, at time: Int64) {
        items[key] = nil
        noteEviction(at: time)
    }

    mutating func evictMarks(at time: Int64) {
        marks = [:]
        noteEviction(at: time)
    }

    private mutating func noteEviction(at time: Int64) {
        evictions += 1
        // An evicted version may be from this very millisecond.
        begun = time + 1
    }

    /// Nothing that was changed with a higher version has been forgotten.
    private func memory(at now: Int64) -> String { Self.digits(max(begun, now - tombstone)) }

    private func scopes(_ key: RemoteKey, _ tags: [String]) -> [RemoteScope] {
        [RemoteScope(namespace: key.namespace)] + tags.map { RemoteScope(namespace: key.namespace, tag: $0) }
    }

    private mutating func item(_ key: RemoteKey, at now: Int64) -> Item? {
        if let item = items[key], item.isOver(at: now) {
            items[key] = nil
        }
        return items[key]
    }

    /// Notes a change of a value that ends within a day.
    private mutating func noteEnd(of item: Item, _ key: RemoteKey, at now: Int64) {
        guard let value = item.value, let expires = value.expires, expires + value.keptStale - now < tombstone else {
            return
        }
        ended.note(key, item.version)
    }

    /// A version that is not lower than that of any value that has ended; from the future it counts for nothing.
    private func endedVersion(_ key: RemoteKey, at now: Int64) -> RemoteVersion? {
        ended.version(of: key).flatMap { Self.isAhead($0, of: now) ? nil : $0 }
    }

    mutating func read(_ request: RemoteRead, at now: Int64) -> RemoteReading {
        let current = request.known.map { state(of: scopes(request.key, request.tags), since: $0, at: now) } ?? .unknown
        guard let item = item(request.key, at: now) else {
            // The known version itself proves nothing: a removal may have followed it, and been evicted.
            guard let known = request.known, let end = endedVersion(request.key, at: now), known < end else {
                return RemoteReading(.missing, scopes: current, epoch: epoch)
            }
            return RemoteReading(.removed(end), scopes: current, epoch: epoch)
        }
        guard let value = item.value, value.entry.payload.count <= request.sizeLimit else {
            return RemoteReading(.removed(item.version), scopes: current, epoch: epoch)
        }
        if zip(value.scopes, value.generations).contains(where: { marks[$0]?.id != $1 }) {
            return RemoteReading(.cleared(item.version), scopes: current, epoch: epoch)
        }
        let life = value.life(at: now)
        if item.version == request.known { return RemoteReading(.unchanged(item.version, life), scopes: current) }
        return RemoteReading(.value(value.entry, item.version, life), scopes: current, epoch: epoch)
    }

    /// Whether scopes have been cleared since a version.
    private func state(of scopes: [RemoteScope], since version: RemoteVersion, at now: Int64) -> RemoteReading.Scopes {
        if Self.isAhead(version, of: now) { return .cleared }
        if scopes.contains(where: { version.description <= marks[$0]?.cleared ?? "" }) { return .cleared }
        return scopes.allSatisfy { marks[$0].map { version.description > $0.begun } ?? false } ? .current : .unknown
    }

    private func isCleared(_ scope: RemoteScope, since version: RemoteVersion, at now: Int64) -> Bool {
        guard let clear = marks[scope]?.cleared.flatMap({ RemoteVersion($0) }) else { return false }
        return version <= clear && !Self.isAhead(clear, of: now)
    }

    /// The rule that all changes of a key share: nil when the change is to be made.
    private mutating func refusal(_ key: RemoteKey, _ version: RemoteVersion, at now: Int64) -> RemoteOutcome? {
        if Self.isAhead(version, of: now) { return .ahead(time: now) }
        // A version of the future is from a time before the server's clock was set back: it orders nothing.
        guard let item = item(key, at: now), item.version > version, !Self.isAhead(item.version, of: now) else {
            return nil
        }
        return .superseded(item.version)
    }

    private static func isAhead(_ version: RemoteVersion, of now: Int64) -> Bool { version.milliseconds > now + 5000 }

    mutating func write(_ write: RemoteWrite, at now: Int64) -> RemoteOutcome {
        if let refusal = refusal(write.key, write.version, at: now) { return refusal }
        let scopes = scopes(write.key, write.tags)
        // A newer change of the key may have been evicted, or has expired.
        let isOver = endedVersion(write.key, at: now).map { write.version <= $0 } ?? false
        let isForgotten = write.version.description <= memory(at: now)
        var isCleared = write.isLate && items[write.key] == nil && (isOver || isForgotten)
        for scope in scopes {
            // The writer would have been told of a clear, unless it was not connected: then the mark must have been
            // there since, or no mark can have been lost.
            let mark = marks[scope] ?? Mark(id: newID(), cleared: nil, begun: memory(at: now))
            marks[scope] = mark
            if write.isLate, write.version.description <= mark.begun { isCleared = true }
            if self.isCleared(scope, since: write.version, at: now) { isCleared = true }
        }
        if isCleared { return .cleared }
        let generations = scopes.map { marks[$0]?.id ?? "" }
        let item = Item(
            version: write.version,
            value: Value(
                entry: write.entry, expires: write.life.remaining.map { now + $0 }, keptStale: write.life.keptStale,
                stored: now - write.life.age, scopes: scopes, generations: generations))
        items[write.key] = item
        noteEnd(of: item, write.key, at: now)
        return .done
    }

    mutating func renew(_ write: RemoteWrite, at now: Int64) -> RemoteOutcome {
        if let refusal = refusal(write.key, write.version, at: now) { return refusal }
        guard var item = item(write.key, at: now), var value = item.value else { return .missing }
        if let base = write.base, base != item.version, base != item.base { return .superseded(item.version) }
        let isCurrent = !zip(value.scopes, value.generations).contains { marks[$0]?.id != $1 }
        guard isCurrent else { return .cleared }
        value.entry.record = write.entry.record
        value.entry.checksum = write.entry.checksum
        (value.expires, value.keptStale) = (write.life.remaining.map { now + $0 }, write.life.keptStale)
        value.stored = now - write.life.age
        item = Item(version: write.version, base: item.base ?? item.version, value: value)
        items[write.key] = item
        noteEnd(of: item, write.key, at: now)
        return .done
    }

    mutating func expire(_ key: RemoteKey, _ version: RemoteVersion, at now: Int64) -> RemoteOutcome {
        if let refusal = refusal(key, version, at: now) { return refusal }
        guard let item = item(key, at: now), var value = item.value else { return remove(key, version, at: now) }
        if value.keptStale == 0 { return remove(key, version, at: now) }
        value.expires = min(value.expires ?? now, now)
        let expired = Item(version: version, base: item.base ?? item.version, value: value)
        items[key] = expired
        noteEnd(of: expired, key, at: now)
        return .done
    }

    mutating func remove(_ key: RemoteKey, _ version: RemoteVersion, at now: Int64) -> RemoteOutcome {
        if let refusal = refusal(key, version, at: now) { return refusal }
        items[key] = Item(version: version, value: nil, end: now + tombstone)
        return .done
    }

    mutating func clear(_ scope: RemoteScope, _ version: RemoteVersion, at now: Int64) -> Bool {
        if let mark = marks[scope], let cleared = mark.cleared, cleared >= version.description { return false }
        // Without a mark, a later clear may have been forgotten.
        let begun = max(version.description, marks[scope]?.begun ?? memory(at: now))
        marks[scope] = Mark(id: newID(), cleared: version.description, begun: begun)
        return true
    }

    mutating func lease(_ key: RemoteKey, _ holder: String, _ milliseconds: Int64, at now: Int64) -> Bool {
        if let lease = leases[key], now < lease.end, lease.holder != holder { return false }
        leases[key] = (holder, now + milliseconds)
        return true
    }

    mutating func endLease(_ key: RemoteKey, _ holder: String) -> Bool {
        guard leases[key]?.holder == holder else { return false }
        leases[key] = nil
        return true
    }
}
