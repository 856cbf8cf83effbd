/// The failures that a stored value survives, once the call that stored it has returned.
public struct Durability: Hashable, Sendable, CustomStringConvertible {
    private enum Kind: Hashable { case killSafe, powerSafe }

    private let kind: Kind

    /// The name of the setting.
    public var description: String { "\(kind)" }

    /// Survives the end of the process, however it ends. A power cut may lose changes since the system last wrote its
    /// page cache (on Linux up to about 30 seconds). This is the default, because it needs no sync.
    public static let killSafe = Durability(kind: .killSafe)
    /// Survives a power cut: a call returns once its changes are on the disk. A change takes milliseconds instead of
    /// microseconds.
    public static let powerSafe = Durability(kind: .powerSafe)
}

/// The format in which the index is saved. It may change from one opening to the next.
public struct ManifestFormat: Hashable, Sendable, CustomStringConvertible {
    private enum Kind: Hashable { case json, propertyList }

    private let kind: Kind

    /// The name of the format.
    public var description: String { "\(kind)" }

    /// `manifest.json`, with an entry per line, written and read in pieces. The default.
    public static let json = ManifestFormat(kind: .json)
    /// `manifest.plist`, a dictionary that `plutil -p` prints well. It is slower and is held in memory as a whole: on
    /// Linux, where `PropertyListEncoder` writes it, 10,000 entries are saved in 75 ms instead of 4, in the background,
    /// and opened in 20 ms instead of 6. For caches of a few thousand entries.
    public static let propertyList = ManifestFormat(kind: .propertyList)
}

/// Where a memory cache releases removed values, and so where their `deinit` runs; never with a lock held.
public struct ValueRelease: Hashable, Sendable, CustomStringConvertible {
    enum Kind: Hashable { case inline, background, main }

    let kind: Kind

    /// The name of the setting.
    public var description: String { "\(kind)" }

    /// In the call that removes them, or in the background if that is a call to the disk tier. While another thread is
    /// releasing values of the cache, it releases these too, which keeps the order.
    public static let inline = ValueRelease(kind: .inline)
    /// On a utility queue, some milliseconds later, many at a time.
    public static let background = ValueRelease(kind: .background)
    /// As `background`, but on the main queue: for values that may only be released there.
    public static let main = ValueRelease(kind: .main)
}

/// Which values a full cache gives up.
public enum EvictionPolicy: Hashable, Sendable {
    /// Keeps what is used again and again, and learns from its own mistakes how quickly newcomers may replace it. One
    /// pass over many values, or a loop over a few more than there is room for, does not empty the cache.
    ///
    /// The articles <doc:MemoryLimits> and <doc:Limits> describe it, and name the patterns for which it is worse.
    case adaptive

    /// Gives up the value that was stored or read longest ago, exactly.
    case leastRecentlyUsed
}

extension EvictionPolicy: CustomStringConvertible {
    /// The name of the case.
    public var description: String { self == .adaptive ? "adaptive" : "leastRecentlyUsed" }
}
