import LarderFiles

/// Sums over entries.
struct EntryTotals: Hashable, Sendable {
    /// Entries.
    var count = 0
    /// Payload bytes.
    var size = 0
    /// Bytes on disk, approximately.
    var allocatedSize = 0

    mutating func add(_ entry: IndexEntry) {
        count += 1
        size += entry.size
        allocatedSize += entry.allocatedSize
    }

    mutating func remove(_ entry: IndexEntry) {
        var one = EntryTotals()
        one.add(entry)
        add(one, times: -1)
    }

    mutating func add(_ other: EntryTotals, times factor: Int = 1) {
        count += other.count * factor
        size += other.size * factor
        allocatedSize += other.allocatedSize * factor
    }
}

extension NamespaceUsage {
    init(_ namespace: Namespace, _ totals: EntryTotals) {
        self.init(
            namespace: namespace.isNone ? nil : namespace.name, count: totals.count, payloadSize: totals.size,
            allocatedSize: totals.allocatedSize)
    }
}

/// The sums over all entries, and over those of each namespace, as stated in an index file.
struct SavedTotals: Sendable, Equatable {
    /// The maximum number of namespaces whose sums an index file states, and of bytes in their names. More would make
    /// the record too long.
    static let mostNamespaces = 1_000
    static let longestNames = 64 << 10

    var whole = EntryTotals()
    /// Of the namespaces with a name; nil: there were too many.
    var namespaces: [Namespace: EntryTotals]? = [:]

    mutating func add(_ entry: IndexEntry) {
        var one = EntryTotals()
        one.add(entry)
        whole.add(one)
        let namespace = entry.namespace
        if !namespace.isNone { add(one, times: 1, to: namespace) }
    }

    /// Adds or, with `times: -1`, subtracts other sums. O(their namespaces).
    mutating func add(_ other: SavedTotals, times factor: Int = 1) {
        whole.add(other.whole, times: factor)
        guard let others = other.namespaces else { return namespaces = nil }
        for (namespace, totals) in others { add(totals, times: factor, to: namespace) }
    }

    private mutating func add(_ totals: EntryTotals, times factor: Int, to namespace: Namespace) {
        guard var sums = namespaces?.removeValue(forKey: namespace) ?? namespaces.map({ _ in EntryTotals() }) else {
            return
        }
        sums.add(totals, times: factor)
        if sums != EntryTotals() { namespaces?[namespace] = sums }
    }

    /// The sums of a namespace, or of the part without one; nil when they are not known.
    func totals(of namespace: Namespace) -> EntryTotals? {
        guard let namespaces else { return nil }
        if !namespace.isNone { return namespaces[namespace] ?? EntryTotals() }
        var own = whole
        for totals in namespaces.values { own.add(totals, times: -1) }
        return own
    }

    /// The same, without the namespaces if there are too many of them for a record.
    var bounded: SavedTotals {
        guard let namespaces else { return self }
        let length = namespaces.keys.reduce(0) { $0 + $1.name.utf8.count }
        if namespaces.count <= Self.mostNamespaces, length <= Self.longestNames { return self }
        return SavedTotals(whole: whole, namespaces: nil)
    }
}
