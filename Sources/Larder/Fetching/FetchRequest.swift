import LarderFiles

/// A call that fetches: its keys, its options, and the fetch that brings the missing values. A call for one key is a
/// batch of one.
struct FetchRequest<Value: Sendable>: Sendable {
    let keys: [Key]
    let options: FetchOptions
    /// Brings a result for each of the keys it is given, in their order; nil for a key without one.
    let fetch: @Sendable ([MissingKey<Value>]) async throws -> [FetchResult<Value>?]

    /// A call for several keys. Its fetch may bring nothing for some of them.
    init(
        _ keys: [Key], _ options: FetchOptions,
        _ fetch: @escaping @Sendable ([String]) async throws -> [String: FetchResult<Value>]
    ) {
        self.keys = keys
        self.options = options
        self.fetch = { missing in
            let results = try await fetch(missing.map(\.key.text))
            return missing.map { results.value(forExactly: $0.key.text) }
        }
    }

    /// A call for one key. Its fetch is given the value in the cache if the options say so.
    init(
        _ key: Key, _ options: FetchOptions,
        _ revalidate: @escaping @Sendable (Lookup<Value>?) async throws -> FetchResult<Value>
    ) {
        keys = [key]
        self.options = options
        fetch = { missing in [try await revalidate(missing.first.flatMap { $0.stored?.lookup(at: $0.now) })] }
    }
}

extension Dictionary where Key == String {
    /// Returns the value of a key that has the same UTF-8 bytes; a dictionary also finds another spelling of it. O(1).
    fileprivate func value(forExactly key: String) -> Value? {
        guard let index = index(forKey: key), self[index].key.hasSameBytes(as: key) else { return nil }
        return self[index].value
    }
}

/// A key that a flight fetches.
struct MissingKey<Value: Sendable>: Sendable {
    let key: Key
    /// Among the keys of the flight.
    let index: Int
    let now: Timestamp
    /// The value to revalidate; nil when there is none or the call does not revalidate.
    let stored: StoredValue<Value>?
}
