import LarderFiles

/// What a `clear` removes.
enum ClearScope: Hashable, Sendable {
    case everything
    case namespace(Namespace)
    /// What has a tag, in the tag's namespace.
    case tag(Key)

    /// The namespace concerned; nil: all.
    var namespace: Namespace? {
        switch self {
        case .everything: nil
        case .namespace(let namespace): namespace
        case .tag(let tag): tag.namespace
        }
    }
}

/// Parts of the cache that were cleared, each with a number: entries in it whose files have lower numbers are none any
/// more.
struct ClearMarks: Sendable {
    private(set) var numbers: [ClearScope: UInt64] = [:]

    var isEmpty: Bool { numbers.isEmpty }

    mutating func add(_ scope: ClearScope, below number: UInt64) {
        numbers[scope] = max(number, numbers[scope] ?? 0)
    }

    mutating func removeAll() {
        numbers = [:]
    }

    mutating func keepOnly(_ scope: ClearScope) {
        numbers = numbers.filter { $0.key == scope }
    }

    /// Files of an entry like this one are dead below the number. O(tags).
    func number(for entry: IndexEntry) -> UInt64 {
        if numbers.isEmpty { return 0 }
        let whole = max(numbers[.everything] ?? 0, number(for: entry.namespace))
        return entry.tags.reduce(whole) { max($0, numbers[.tag($1)] ?? 0) }
    }

    /// The same, as far as the whole namespace was cleared.
    func number(for namespace: Namespace) -> UInt64 { numbers[.namespace(namespace)] ?? 0 }

    func cover(_ entry: IndexEntry) -> Bool { number(for: entry) > entry.file }
}
