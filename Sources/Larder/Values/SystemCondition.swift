/// A condition that the system reports to programs, to which a memory cache responds by making room. More may be added.
public struct SystemCondition: Hashable, Sendable, CustomStringConvertible {
    /// The name of the condition.
    public let description: String

    private init(_ description: String) {
        self.description = description
    }

    /// Memory is scarce.
    public static let memoryPressure = SystemCondition("memoryPressure")
    /// The program is no longer in the foreground.
    public static let background = SystemCondition("background")
}
