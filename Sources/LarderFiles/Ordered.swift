extension Sequence {
    /// The elements by ascending number, and those of the same number as they come. O(n log n).
    ///
    /// For dictionaries and sets: each process iterates them in another order, so decisions must not depend on it.
    @inlinable
    package func inOrder<Number: BinaryInteger>(of number: (Element) -> Number) -> [Element] {
        let elements = Array(self)
        return Ordered.positions(elements.map { UInt64(truncatingIfNeeded: number($0)) }).map { elements[$0] }
    }
}

@usableFromInline
enum Ordered {
    /// One function for all types: a sort takes some 10 KB of a program.
    @usableFromInline
    static func positions(_ numbers: [UInt64]) -> [Int] {
        numbers.count < 2 ? Array(numbers.indices) : numbers.indices.sorted { (numbers[$0], $0) < (numbers[$1], $1) }
    }
}
