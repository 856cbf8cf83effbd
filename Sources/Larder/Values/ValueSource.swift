/// The source of a value.
public struct ValueSource: Hashable, Sendable, CustomStringConvertible {
    /// The name of the source.
    public let description: String

    private init(_ description: String) {
        self.description = description
    }

    var isFetch: Bool { self == .fetched || self == .revalidated }

    /// The memory tier: decoded values in this process.
    public static let memory = ValueSource("memory")
    /// The disk tier: files.
    public static let disk = ValueSource("disk")
    /// The remote tier: a server that several machines use. The value has been stored here, too.
    public static let remote = ValueSource("remote")
    /// A fetch that returned a new value.
    public static let fetched = ValueSource("fetched")
    /// The cache, after a fetch has confirmed that its value is still valid.
    public static let revalidated = ValueSource("revalidated")
}
