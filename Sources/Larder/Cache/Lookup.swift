public import Foundation
import LarderFiles

/// A value that was found, and what is known about it.
public struct Lookup<Value: Sendable>: Sendable {
    /// The value.
    public let value: Value
    /// Which tier had it.
    public let tier: CacheTier
    /// The time since its life began: since it was stored, or last renewed.
    public let age: Duration
    /// When it expires; nil: never.
    public let expiresAt: Date?

    init(_ value: Value, in tier: CacheTier, life: MemoryLife, at now: Timestamp) {
        self.value = value
        self.tier = tier
        age = .milliseconds(max(0, now.millisecondsSince(life.begun)))
        expiresAt = life.expires.milliseconds == Life.unlimited ? nil : life.expires.date
    }
}
