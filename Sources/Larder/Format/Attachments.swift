import LarderFiles

/// The parts of a record that most entries do not have.
final class Attachments: Sendable {
    let traits: Traits
    let metadata: [String: String]
    /// The fields that this version does not know, verbatim: `,"name":value` each.
    let unknown: [UInt8]

    /// What many entries have in common.
    struct Traits: Hashable, Sendable {
        var namespace = Namespace.none
        /// Tags are told apart like keys, and belong to a namespace as keys do.
        var tags: [Key] = []
        /// For how long the entry is kept beyond its expiry. Milliseconds; `Life.unlimited`: for ever.
        var keptStale: Int64 = 0
        /// The entry says that there is no value.
        var isAbsent = false
        /// What has expired may be revalidated, but not be answered.
        var mustRevalidate = false
    }

    /// Returns nil when there is nothing to attach.
    init?(_ traits: Traits = Traits(), metadata: [String: String] = [:], unknown: [UInt8] = []) {
        if traits == Traits() && metadata.isEmpty && unknown.isEmpty { return nil }
        self.traits = traits
        self.metadata = metadata
        self.unknown = unknown
    }

    /// True when many entries can share one of these.
    var areShareable: Bool { metadata.isEmpty && unknown.isEmpty }

    /// The same with what a renewal has changed.
    func updated(_ update: Update) -> Attachments? {
        var traits = traits
        traits.keptStale = update.keptStale
        return Attachments(traits, metadata: update.metadata, unknown: unknown)
    }

    /// What may change with a life, while the payload stays.
    struct Update: Equatable, Sendable {
        var metadata: [String: String]
        var keptStale: Int64
    }
}
