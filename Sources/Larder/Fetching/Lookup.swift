import LarderFiles
public import LarderFoundation

/// A value that was found or fetched, with its source, its age, its expiry and its metadata.
public struct Lookup<Value: Sendable>: Sendable {
    /// The value.
    public let value: Value
    /// Where it came from.
    public internal(set) var source: ValueSource
    /// The time since its life began: since it was stored, renewed or confirmed by a fetch.
    public let age: Duration
    /// When it expires or has expired; nil: never.
    public let expiresAt: Date?
    /// The metadata that was stored with it.
    public let metadata: [String: String]
    /// Whether it has expired. A call returns such a value only where its policy or `allowingStale` says so.
    public let isStale: Bool
    /// Why a fetch returned a stale value; nil for any other value.
    public internal(set) var staleReason: StaleReason?
    /// The error of the fetch, if `staleReason` is `.failed`; nil where `retryThrottle` has spared the call a fetch.
    public internal(set) var fetchError: (any Error)?
    let life: MemoryLife

    init(
        _ value: Value, from source: ValueSource, life: MemoryLife, metadata: [String: String], at now: Timestamp,
        isStale: Bool? = nil
    ) {
        self.value = value
        self.source = source
        age = .milliseconds(max(0, now.millisecondsSince(life.begun)))
        expiresAt = life.expires.milliseconds == Life.unlimited ? nil : life.expires.date
        self.metadata = metadata
        self.isStale = isStale ?? (now >= life.expires)
        self.life = life
    }

    /// The same value, for a call that found it on disk before it found it in memory.
    func found(in tier: ValueSource?) -> Lookup {
        guard isStale, source == .memory, let tier else { return self }
        var lookup = self
        lookup.source = tier
        return lookup
    }

    /// The same value, returned stale for a reason; unchanged when it is fresh.
    func stale(_ reason: StaleReason, _ error: (any Error)? = nil) -> Lookup {
        guard isStale else { return self }
        var lookup = self
        (lookup.staleReason, lookup.fetchError) = (reason, error)
        return lookup
    }
}

/// Why a call that fetches has returned a stale value.
public struct StaleReason: Hashable, Sendable, CustomStringConvertible {
    /// The name of the reason.
    public let description: String

    private init(_ description: String) {
        self.description = description
    }

    /// A new value is being fetched in the background: `staleWhileRevalidate`.
    public static let revalidating = StaleReason("revalidating")
    /// The fetch took longer than the soft timeout, and continues.
    public static let late = StaleReason("late")
    /// The fetch has failed or timed out, or failed so recently that `retryThrottle` begins no other.
    public static let failed = StaleReason("failed")
}

extension Lookup: CustomStringConvertible {
    /// The value, its source, its age, its expiry and its metadata.
    public var description: String {
        var text = "\(Wording.value(value)) from \(source), \(Wording.duration(age)) old, \(Wording.expiry(expiresAt))"
        if isStale { text += staleReason.map { ", stale (\($0))" } ?? ", stale" }
        return metadata.isEmpty ? text : "\(text), \(Wording.metadata(metadata))"
    }
}
