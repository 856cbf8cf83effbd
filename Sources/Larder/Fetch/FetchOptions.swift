import LarderFiles

/// How what is fetched is to be kept, and what may be answered. An object: it goes through many async frames, and a policy is large.
final class FetchOptions: Sendable {
    let ttl: TimeToLive
    let tags: [Key]
    let policy: FetchPolicy
    /// Whether the fetch wants to be given what the cache has.
    let revalidates: Bool

    init(ttl: TimeToLive, tags: [Key], policy: FetchPolicy, revalidates: Bool = false) {
        self.ttl = ttl
        self.tags = tags
        self.policy = policy
        self.revalidates = revalidates
    }
}
