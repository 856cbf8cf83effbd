/// Something that the system tells its programs, and that a cache in memory answers by making room. More may come.
public struct SystemCondition: Hashable, Sendable, CustomStringConvertible {
    /// The name of the condition.
    public let description: String

    private init(_ description: String) {
        self.description = description
    }

    /// Memory is short.
    public static let memoryPressure = SystemCondition("memoryPressure")
    /// The program is no longer in the foreground.
    public static let background = SystemCondition("background")
}
