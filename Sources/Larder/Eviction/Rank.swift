/// What adaptive eviction on disk knows of an entry: its part, and its hits since it came there. Four bits.
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

    private static let hitBits: UInt8 = 3

    /// The form in the index and in records; 0: a new entry.
    private(set) var packed: UInt8

    init(_ part: Part = .window, hits: UInt8 = 0) {
        packed = UInt8(part.rawValue) << 2 | min(hits, Self.hitBits)
    }

    /// Nil when there is no such rank.
    init?(packed: UInt64) {
        guard packed < UInt64(Part.allCases.count) << 2 else { return nil }
        self.packed = UInt8(packed)
    }

    /// The same, of bits that were packed here.
    init(trusted packed: UInt8) { self.packed = packed }

    var part: Part { Part(rawValue: Int(packed >> 2)) ?? .window }
    /// At most three.
    var hits: UInt8 { packed & Self.hitBits }

    /// How much is lost with an entry, compared with others: one, and one for each hit. A protected one has had some.
    var worth: Int { 1 + Int(hits) + (part == .protected ? 2 : 0) }

    /// One hit more.
    var used: Rank { hits < Self.hitBits ? Rank(trusted: packed + 1) : self }
}
