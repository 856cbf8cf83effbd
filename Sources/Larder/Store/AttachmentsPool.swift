import LarderFiles

/// The attachments that many entries have in common, so that they share one object.
final class AttachmentsPool: Sendable {
    /// Kinds of entries that are kept in mind, and how long their tags may be together.
    private static let most = 1024
    private static let longestTags = 256

    private let known = Lock<[Attachments.Traits: Attachments]>([:])

    /// Returns attachments with these traits; nil when there is nothing to attach. O(tags).
    func attachments(_ traits: Attachments.Traits, metadata: [String: String]) -> Attachments? {
        let length = traits.tags.reduce(0) { $0 + $1.text.utf8.count }
        if !metadata.isEmpty || length > Self.longestTags { return Attachments(traits, metadata: metadata) }
        return known.withLock { known in
            if let shared = known[traits] { return shared }
            guard let new = Attachments(traits) else { return nil }
            if known.count == Self.most { known = [:] }
            known[traits] = new
            return new
        }
    }
}
