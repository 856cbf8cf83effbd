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
