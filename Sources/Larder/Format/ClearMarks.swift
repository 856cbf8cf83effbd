import LarderFiles

/// The part of the cache that a `clear` removes.
enum ClearScope: Hashable, Sendable {
    /// All namespaces, and the part without one.
    case everything
    /// The entries of a namespace, or of none; not those of the namespaces inside it.
    case namespace(Namespace)
    /// The entries with a tag, in the tag's namespace.
    case tag(Key)

    /// The namespace that the scope lies in; nil: all of them.
    var namespace: Namespace? {
        switch self {
        case .everything: nil
        case .namespace(let namespace): namespace
        case .tag(let tag): tag.namespace
        }
    }

    /// True when the scope may contain entries of a namespace.
    func mayConcern(_ namespace: Namespace) -> Bool { self.namespace.map { $0 == namespace } ?? true }
}

/// The cleared scopes, each with a number: entries in the scope with lower file numbers are removed.
struct ClearMarks: Sendable {
    private(set) var numbers: [ClearScope: UInt64] = [:]

    var isEmpty: Bool { numbers.isEmpty }

    mutating func add(_ scope: ClearScope, below number: UInt64) {
        numbers[scope] = max(number, numbers[scope] ?? 0)
    }

    mutating func forget(through number: UInt64) {
        numbers = numbers.filter { $0.value > number }
    }

    mutating func removeAll() {
        numbers = [:]
    }

    mutating func keepOnly(_ scope: ClearScope) {
        numbers = numbers.filter { $0.key == scope }
    }

    /// The number below which the files of such an entry are dead. O(tags).
    func number(for entry: IndexEntry) -> UInt64 {
        if numbers.isEmpty { return 0 }
        let whole = max(numbers[.everything] ?? 0, number(for: entry.namespace))
        return entry.tags.reduce(whole) { max($0, numbers[.tag($1)] ?? 0) }
    }

    /// The same for a namespace that was cleared as a whole.
    func number(for namespace: Namespace) -> UInt64 { numbers[.namespace(namespace)] ?? 0 }

    func cover(_ entry: IndexEntry) -> Bool { number(for: entry) > entry.file }
}
