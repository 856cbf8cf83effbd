import LarderFiles

/// What few values in memory have beside them: those that a fetch has brought, where there is no disk.
@usableFromInline
struct MemoryExtra: Sendable {
    var metadata: [String: String] = [:]
    /// Before the life began, where that was renewed.
    var stored: Timestamp?
    /// For how long the value is kept beyond its expiry. Milliseconds; `Life.unlimited`: for ever.
    var keptStale: Int64 = 0
    var mustRevalidate = false

    var isNone: Bool { metadata.isEmpty && keptStale == 0 && !mustRevalidate }
}
