/// How urgent it is to release what has left the memory.
@usableFromInline
enum ReleaseDemand: Sendable {
    case none, soon, now
}

/// What has been asked for, so that nobody asks twice.
@usableFromInline
struct ReleaseDemands: Sendable {
    /// Values that may wait for their time.
    @inlinable static var most: Int { 2048 }

    @usableFromInline var isSoon = false
    @usableFromInline var isNow = false

    @inlinable
    init() {}

    /// Returns the demand, unless it is under way.
    @inlinable
    mutating func add(_ demand: ReleaseDemand) -> ReleaseDemand {
        if isNow || isSoon && demand == .soon { return .none }
        if demand == .now { isNow = true } else { isSoon = true }
        return demand
    }

    mutating func meet(_ demand: ReleaseDemand) {
        if demand == .now { isNow = false } else { isSoon = false }
    }
}
