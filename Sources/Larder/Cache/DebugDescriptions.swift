import LarderFoundation

extension Cache: CustomDebugStringConvertible {
    /// Where the values are, how many there are, and how often reads found one.
    public var debugDescription: String {
        var parts: [String] = []
        if let memory { parts.append("memory: \(memory)") }
        if let disk { parts.append("disk: \(disk.contents)") }
        return "Cache<\(Value.self)>(\((parts + ["\(statistics)"]).joined(separator: "; ")))"
    }
}

extension LoadingCache: CustomDebugStringConvertible {
    /// The description of ``cache``.
    public var debugDescription: String { "Loading\(cache.debugDescription)" }
}

extension DiskCache: CustomDebugStringConvertible {
    /// The directory, the namespace, the number of entries and their size.
    public var debugDescription: String { "DiskCache(\(contents))" }

    fileprivate var contents: String {
        if isClosed { return "\(directory.path), closed" }
        let place = keyNamespace.isNone ? "" : ", namespace \(Wording.quoted(keyNamespace.name))"
        let size = Wording.number(payloadSize, "byte", "bytes")
        return "\(directory.path)\(place), \(Wording.number(count, "entry", "entries")), \(size)"
    }
}

extension MemoryCache: CustomDebugStringConvertible {
    /// The number of entries, the sum of their costs, and the limits.
    public var debugDescription: String {
        var parts = [Wording.number(count, "entry", "entries"), "cost \(cost)"]
        if let countLimit { parts.append("countLimit: \(countLimit)") }
        if let costLimit { parts.append("costLimit: \(costLimit)") }
        return "MemoryCache<\(Key.self), \(Value.self)>(\(parts.joined(separator: ", ")))"
    }
}
