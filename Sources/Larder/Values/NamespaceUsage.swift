/// What a namespace takes of a directory.
public struct NamespaceUsage: Hashable, Sendable {
    /// Its name; nil: the part without a namespace.
    public let namespace: String?
    /// Entries, including expired ones that the sweep has not removed yet.
    public let count: Int
    /// Bytes of their values as they were stored.
    public let payloadSize: Int
    /// Bytes that they take on disk, estimated as for ``CacheEntry/allocatedSize``.
    public let allocatedSize: Int
}

extension NamespaceUsage: CustomStringConvertible {
    /// The name, the number of entries and their bytes.
    public var description: String {
        let name = namespace.map { "namespace \(Wording.quoted($0))" } ?? "no namespace"
        let entries = Wording.number(count, "entry", "entries")
        return "\(name): \(entries), \(Wording.number(payloadSize, "byte", "bytes")), \(allocatedSize) on disk"
    }
}
