// What a run decides must not depend on the order of a dictionary, which is another in each process.

extension Sequence {
    /// The pairs of a dictionary, by ascending key. O(n log n).
    @inlinable
    package func sortedByKey<Name: Comparable, Value>() -> [(key: Name, value: Value)]
    where Element == (key: Name, value: Value) {
        sorted { $0.key < $1.key }
    }

    /// Its values, by ascending key. O(n log n).
    @inlinable
    package func valuesByKey<Name: Comparable, Value>() -> [Value] where Element == (key: Name, value: Value) {
        sortedByKey().map { $0.value }
    }

    /// The pairs of a dictionary, by ascending value. O(n log n).
    @inlinable
    package func sortedByValue<Name, Value: Comparable>() -> [(key: Name, value: Value)]
    where Element == (key: Name, value: Value) {
        sorted { $0.value < $1.value }
    }
}
