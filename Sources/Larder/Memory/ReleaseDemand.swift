/// How urgent it is to release what has left the memory.
@usableFromInline
enum ReleaseDemand: UInt8, Sendable {
    case none, soon, now

    /// Values that may wait.
    @usableFromInline static let most = 2048

    @inlinable
    init(waiting: Int) {
        self = waiting == 0 ? .none : waiting < Self.most ? .soon : .now
    }
}
