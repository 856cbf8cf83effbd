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

/// How the index is saved. It may change from one opening to the next.
public struct ManifestFormat: Hashable, Sendable {
    private enum Kind: Hashable { case json, propertyList }

    private let kind: Kind

    /// `manifest.json`, an entry per line: written and read in pieces. The default.
    public static let json = ManifestFormat(kind: .json)
    /// `manifest.plist`, a dictionary that `plutil -p` shows well. Slower: on Linux, where Foundation writes it, 10,000 entries
    /// are saved in 600 ms instead of 4, behind the changes, and opened in 20 ms instead of 6; and all of it stands in memory.
    /// For caches of a few thousand entries.
    public static let propertyList = ManifestFormat(kind: .propertyList)
}

/// Where values that have left a cache in memory are released, and so where their `deinit` runs: never with a lock held.
public struct ValueRelease: Hashable, Sendable {
    enum Kind: Hashable { case inline, background, main }

    let kind: Kind

    /// In the call that removes them; where that is a call to the disk tier, in the background.
    public static let inline = ValueRelease(kind: .inline)
    /// On a utility queue, some milliseconds later, many at a time.
    public static let background = ValueRelease(kind: .background)
    /// The same on the main queue: for values that may only be released there.
    public static let main = ValueRelease(kind: .main)
}
