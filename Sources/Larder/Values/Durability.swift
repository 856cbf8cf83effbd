/// What a stored value survives, once the call that stored it has returned.
public struct Durability: Hashable, Sendable {
    private enum Kind: Hashable { case killSafe, powerSafe }

    private let kind: Kind

    /// Survives the end of the process, however it comes. A power cut may lose what changed since the system last wrote its
    /// page cache (on Linux some 30 seconds). The default, because it needs no sync.
    public static let killSafe = Durability(kind: .killSafe)
    /// Survives a power cut: a call returns when the disk has what it changed. Milliseconds per change instead of
    /// microseconds.
    public static let powerSafe = Durability(kind: .powerSafe)
}
