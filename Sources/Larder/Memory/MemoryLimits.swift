/// The limits of a memory cache. "No limit" is the largest number of the type, for costs `Int.max / 2`.
@usableFromInline
struct MemoryLimits: Sendable {
    /// The largest cost, and the largest limit: the sum of the costs stays within the limit, so adding one more value
    /// cannot overflow.
    @inlinable static var costBound: Int { .max / 2 }

    @usableFromInline var count: Int
    @usableFromInline var cost: Int
    @usableFromInline var entryCost: Int
    /// The milliseconds that an entry may go unused.
    @usableFromInline var age: Int64

    init(count: Int?, cost: Int?, entryCost: Int?, age: Duration?) {
        self.count = Self.count(count)
        self.cost = Self.cost(cost)
        self.entryCost = Self.cost(entryCost)
        self.age = Self.age(age)
    }

    /// Whether an entry may cost so much.
    @inlinable
    func allow(_ cost: Int) -> Bool { cost <= self.cost && cost <= entryCost }

    @inlinable
    static func bounded(_ cost: Int) -> Int { min(max(0, cost), costBound) }

    static func count(_ limit: Int?) -> Int { max(0, limit ?? .max) }

    static func cost(_ limit: Int?) -> Int { bounded(limit ?? .max) }

    static func age(_ limit: Duration?) -> Int64 { limit.map { max(0, $0.milliseconds) } ?? .max }
}
