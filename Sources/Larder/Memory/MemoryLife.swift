public import LarderFiles

/// When a life in memory began and when it ends.
@usableFromInline
struct MemoryLife: Hashable, Sendable {
    @usableFromInline let begun: Timestamp
    @usableFromInline let expires: Timestamp

    /// The rule of the disk tier: an entry is expired from its expiry on, and one from the future is not believed.
    @inlinable
    func isFresh(at now: Timestamp) -> Bool {
        now < expires && isFromPast(at: now)
    }

    @inlinable
    func isFromPast(at now: Timestamp) -> Bool { begun.milliseconds &- now.milliseconds <= Life.clockTolerance }

    init(begun: Timestamp, expires: Timestamp) {
        self.begun = begun
        self.expires = expires
    }

    /// A life that begins now; nil for "do not keep".
    @usableFromInline
    init?(_ ttl: TimeToLive, from now: Timestamp, default standard: TimeToLive) {
        guard let life = ttl.life(from: now, default: standard) else { return nil }
        begun = now
        expires = life.expires
    }

    /// The life of an entry on disk, which may have been renewed since it was stored.
    init(_ entry: IndexEntry) {
        let life = entry.life
        let renewed =
            life.ttl == Life.unlimited || life.isForever ? nil : life.expires.advanced(byMilliseconds: -life.ttl)
        begun = max(entry.stored, renewed ?? entry.stored)
        expires = life.expires
    }
}
