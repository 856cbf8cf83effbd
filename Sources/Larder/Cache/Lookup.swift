public import Foundation
import LarderFiles

/// A value that was found or fetched, with its source, its age and its expiry.
public struct Lookup<Value: Sendable>: Sendable {
    /// The value.
    public let value: Value
    /// Where it came from.
    public let source: ValueSource
    /// The time since its life began: since it was stored or last renewed.
    public let age: Duration
    /// When it expires; nil: never.
    public let expiresAt: Date?
    /// Whether it has expired and was returned because the call's policy allows it.
    public let isStale: Bool
    let life: MemoryLife

    init(_ value: Value, from source: ValueSource, life: MemoryLife, at now: Timestamp, isStale: Bool? = nil) {
        self.value = value
        self.source = source
        age = .milliseconds(max(0, now.millisecondsSince(life.begun)))
        expiresAt = life.expires.milliseconds == Life.unlimited ? nil : life.expires.date
        self.isStale = isStale ?? (now >= life.expires)
        self.life = life
    }
}

extension Lookup: CustomStringConvertible {
    /// The value, its source, its age and its expiry.
    public var description: String {
        let text = "\(Wording.value(value)) from \(source), \(Wording.duration(age)) old, \(Wording.expiry(expiresAt))"
        return isStale ? "\(text), stale" : text
    }
}
