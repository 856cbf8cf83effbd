public import LarderFiles

/// Values that outlive their expiry, for fetches, and those that a disk tier could not store.
extension MemoryCache {
    typealias Found = Table.Found

    /// Returns an expired value that is kept, and records the use, where the windows allow it.
    func useStale(_ key: Key, at now: Timestamp, _ windows: StaleWindows) -> Found? {
        let fingerprint = MemoryKey.fingerprint(key)
        return table.withLock { $0.useStale(key, fingerprint: fingerprint, at: now, windows) }
    }

    /// Returns a fresh value; or else an expired one that is kept and may be an answer, with its expiry. Records the
    /// use, but counts no miss.
    @inlinable
    func findKept(_ key: Key, at now: Timestamp) -> (value: Value, expired: Timestamp?)? {
        let fingerprint = MemoryKey.fingerprint(key)
        var demand = ReleaseDemand.none
        let found = table.withLock { $0.findKept(key, fingerprint: fingerprint, at: now, &demand) }
        if demand != .none { release(demand) }
        return found
    }

    /// Takes the hit back that `findKept` has counted for an expired value.
    @usableFromInline
    func takeBackStaleHit() {
        table.withLock { table in
            table.statistics.hits &-= 1
            table.staleHits &-= 1
        }
    }

    /// The calls that were answered with an expired value from here.
    var staleHits: Int { table.withLock { $0.staleHits } }

    /// True when the disk tier could not store the value of a key.
    func isUnstored(_ key: Key) -> Bool {
        table.withLock { $0.extra(key, fingerprint: MemoryKey.fingerprint(key))?.isUnstored ?? false }
    }

    /// Returns when such a value was stored, and when it expires; nil when there is none. Does not return the value, so
    /// that the caller may hold locks.
    func unstored(_ key: Key, at now: Timestamp) -> (stored: Timestamp, expires: Timestamp)? {
        table.withLock { table in
            let stored = table.stored(key, fingerprint: MemoryKey.fingerprint(key), at: now)
            guard let (entry, extra) = stored, extra.isUnstored, entry.value != nil else { return nil }
            return (extra.stored ?? entry.life.begun, entry.life.expires)
        }
    }

    /// Removes a value because the one on disk expires or is evicted, but not a newer one that is not on disk.
    func invalidateStored(_ key: Key, _ cause: RemovalCause) {
        change(inBackground: true) { table in
            let fingerprint = MemoryKey.fingerprint(key)
            if table.extra(key, fingerprint: fingerprint)?.isUnstored != true {
                table.remove(key, fingerprint: fingerprint, cause)
            }
        }
    }

    /// Removes the values with a tag, and returns their keys. The caller releases them, as for `insertKept`. O(values
    /// with attributes).
    func removeAllKept(tagged tag: Larder.Key) -> (keys: Set<Key>, demand: ReleaseDemand) {
        table.withLock { table in
            let keys = table.removeAll(tagged: tag)
            return (keys, table.takeDemand())
        }
    }
}

extension MemoryTable {
    mutating func useStale(
        _ key: Key, fingerprint: UInt32, at now: Timestamp, _ windows: StaleWindows
    ) -> Found? {
        guard !extras.isEmpty, let slot = slot(key, fingerprint), let value = slots[slot].value else { return nil }
        let life = slots[slot].life
        guard windows.allow(life.expires, at: now), mayAnswer(slot, at: now) else { return nil }
        statistics.hits &+= 1
        staleHits &+= 1
        touch(slot, at: now)
        return (value, life, extras[slot]?.metadata ?? [:])
    }

    @inlinable
    mutating func findKept(
        _ key: Key, fingerprint: UInt32, at now: Timestamp, _ demand: inout ReleaseDemand
    ) -> (value: Value, expired: Timestamp?)? {
        guard let slot = slot(key, fingerprint) else { return nil }
        let isFresh = isUsable(slot, at: now)
        guard isFresh || mayAnswer(slot, at: now), let value = slots[slot].value else {
            demand = noteMiss(slot, at: now)
            return nil
        }
        statistics.hits &+= 1
        if !isFresh { staleHits &+= 1 }
        touch(slot, at: now)
        if slides, isFresh { slide(slot, at: now) }
        return (value, isFresh ? nil : slots[slot].life.expires)
    }

    @inlinable
    func mayAnswer(_ slot: Int, at now: Timestamp) -> Bool {
        let life = slots[slot].life
        return now >= life.expires && life.isFromPast(at: now) && !isAged(slot, at: now)
            && mayAnswerStale(slot, at: now)
    }

    /// Whether an expired value is kept, and may be an answer.
    @inlinable
    func mayAnswerStale(_ slot: Int, at now: Timestamp) -> Bool {
        guard let extra = extras[slot], !extra.mustRevalidate else { return false }
        return now < slots[slot].life.expires.advanced(byMilliseconds: extra.keptStale)
    }

    mutating func extra(_ key: Key, fingerprint: UInt32) -> MemoryExtra? {
        extras.isEmpty ? nil : slot(key, fingerprint).flatMap { extras[$0] }
    }

    /// The slots of the values with a tag, in their order.
    func slots(tagged tag: Larder.Key) -> [Int] {
        extras.filter { $0.value.tags.contains(tag) }.inOrder { $0.key }.map(\.key)
    }

    mutating func removeAll(tagged tag: Larder.Key) -> Set<Key> {
        var keys: Set<Key> = []
        for slot in slots(tagged: tag) {
            keys.insert(slots[slot].key)
            remove(slot, .removed)
        }
        return keys
    }
}

extension MemoryCache where Key == String {
    /// Returns the description of a fresh value, without recording a use.
    func cacheEntry(forKey key: String) -> CacheEntry? {
        let now = time.now
        return table.withLock { table in
            let stored = table.stored(key, fingerprint: MemoryKey.fingerprint(key), at: now)
            guard let (entry, extra) = stored, entry.life.isFresh(at: now), entry.value != nil else { return nil }
            let expires = entry.life.expires
            let keptUntil = expires.advanced(byMilliseconds: extra.keptStale)
            return CacheEntry(
                key: entry.key, namespace: nil, payloadSize: entry.cost, allocatedSize: 0,
                storedAt: (extra.stored ?? entry.life.begun).date,
                expiresAt: expires.milliseconds == Life.unlimited ? nil : expires.date,
                keptUntil: keptUntil.milliseconds == Life.unlimited ? nil : keptUntil.date,
                tags: extra.tags.map(\.text), lastUsedAt: entry.used.date, metadata: extra.metadata)
        }
    }
}

/// The times after its expiry during which a call may be answered with a value.
@usableFromInline
struct StaleWindows: Sendable {
    /// The windows that count on this occasion; nil: none.
    let first: TimeToLive?
    let second: TimeToLive?
    /// The life that `.default` stands for.
    let defaultTTL: TimeToLive

    /// True when a value that is fresh until `expires` may be an answer at `now`. O(1).
    @usableFromInline
    func allow(_ expires: Timestamp, at now: Timestamp) -> Bool {
        now < Self.end(of: first, after: expires, defaultTTL: defaultTTL)
            || now < Self.end(of: second, after: expires, defaultTTL: defaultTTL)
    }

    /// The end of a window; without one, the expiry itself.
    static func end(of window: TimeToLive?, after expires: Timestamp, defaultTTL: TimeToLive) -> Timestamp {
        window?.life(from: expires, default: defaultTTL)?.expires ?? expires
    }
}
