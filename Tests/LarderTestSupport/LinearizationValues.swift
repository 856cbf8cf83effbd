/// The values of a key, numbered densely. Values that nobody has seen are one: nothing distinguishes them.
struct LinearizationValues {
    static let absent = 0
    /// Every value that no call sees, or no call that has not returned yet.
    static let unseen = 1

    /// The value of each number.
    private(set) var names: [Int?] = [nil, nil]
    private var numbers: [Int: Int] = [:]
    private let naming: Set<Int>
    /// The end of the first call that saw a value.
    private(set) var firstSeen: [Int: UInt64] = [:]

    /// Numbers the values that calls have seen, and those of `naming`, which are distinguished in any case.
    init(_ calls: [ObservedCall], initial: Int?, naming: Set<Int>) {
        self.naming = naming
        for call in calls {
            guard let end = call.end, let seen = call.seen else { continue }
            firstSeen[seen] = min(firstSeen[seen] ?? end, end)
        }
        for value in naming.union(firstSeen.keys).union(initial.map { [$0] } ?? []) {
            numbers[value] = names.count
            names.append(value)
        }
    }

    func number(of value: Int?) -> Int { value.map { numbers[$0] ?? Self.unseen } ?? Self.absent }

    /// Whether a value is distinguished even after the last call has seen it.
    func isNamed(_ number: Int) -> Bool { names[number].map(naming.contains) ?? false }

    func number(ofStored value: Int) -> Int { numbers[value] ?? Self.unseen }
}
