/// How the index is saved. It may change from one opening to the next.
public struct ManifestFormat: Hashable, Sendable {
    private enum Kind: Hashable { case json, propertyList }

    private let kind: Kind

    /// `manifest.json`, an entry per line: written and read in pieces. The default.
    public static let json = ManifestFormat(kind: .json)
    /// `manifest.plist`, a dictionary that `plutil -p` shows well. Saving and opening take about ten times as long and the
    /// whole of it in memory: for caches of some ten thousand entries at most.
    public static let propertyList = ManifestFormat(kind: .propertyList)
}
