/// The limit that an entry was evicted to obey.
public struct CacheLimit: Hashable, Sendable, CustomStringConvertible {
    /// The name of the limit.
    public let description: String

    private init(_ description: String) {
        self.description = description
    }

    /// `countLimit`, or `trim(toCount:)`.
    public static let count = CacheLimit("count")
    /// `sizeLimit`, or `trim(toSize:)`.
    public static let size = CacheLimit("size")
    /// `ageLimit`, or `trim(toAge:)`.
    public static let age = CacheLimit("age")
    /// In memory: `costLimit`, or `trim(toCost:)`.
    public static let cost = CacheLimit("cost")
    /// `minimumFreeSpace`, or `trim(toFreeSpace:)`.
    public static let freeSpace = CacheLimit("freeSpace")
}
