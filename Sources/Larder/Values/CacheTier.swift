/// Where a cache keeps values.
public struct CacheTier: Hashable, Sendable, CustomStringConvertible {
    /// The name of the tier.
    public let description: String

    private init(_ description: String) {
        self.description = description
    }

    /// Decoded values, in this process.
    public static let memory = CacheTier("memory")
    /// Files.
    public static let disk = CacheTier("disk")
}
