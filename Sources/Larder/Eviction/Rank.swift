/// The rank of an entry in adaptive eviction on disk: its part, and its hits since it came there. Four bits.
struct Rank: Hashable, Sendable {
    enum Part: Int, CaseIterable, Sendable {
        /// New entries.
        case window
        /// Entries that were let in, and those that are no longer protected.
        case probation
        /// Entries that were used in probation.
        case protected
    }

    /// A rank that an evictor has given.
    struct Decision: Hashable, Sendable {
        let rank: Rank
        /// The highest sequence number at that time: decisions of several processes apply in the order of these.
        let number: UInt64
    }

    /// More hits do not count. Also the bits that hold them.
    static let mostHits: UInt8 = 3

    /// The form in the index and in records; 0: a new entry.
    let packed: UInt8

    init(_ part: Part = .window, hits: UInt8 = 0) {
        packed = UInt8(part.rawValue) << 2 | min(hits, Self.mostHits)
    }

    /// Nil when there is no such rank.
    init?(packed: UInt64) {
        guard packed < UInt64(Part.allCases.count) << 2 else { return nil }
        self.packed = UInt8(packed)
    }

    /// The same, of bits that were packed here.
    init(trusted packed: UInt8) { self.packed = packed }

    var part: Part { Part(rawValue: Int(packed >> 2)) ?? .window }
    /// At most `mostHits`.
    var hits: UInt8 { packed & Self.mostHits }

    /// The worth of an entry compared with others: one, and one for each hit. A protected entry has had some before.
    var worth: Int { 1 + Int(hits) + (part == .protected ? 2 : 0) }

    /// One hit more.
    var used: Rank { hits < Self.mostHits ? Rank(trusted: packed + 1) : self }
}
