public import LarderFiles

/// The clock of a cache in memory: the system's without a detour, or another.
@usableFromInline
struct MemoryTime: Sendable {
    let clock: any Clock
    @usableFromInline let isSystem: Bool

    init(_ clock: any Clock) {
        self.clock = clock
        isSystem = clock is SystemClock
    }

    @inlinable var now: Timestamp { isSystem ? Timestamp.now : told }

    @usableFromInline var told: Timestamp { clock.now }
}
