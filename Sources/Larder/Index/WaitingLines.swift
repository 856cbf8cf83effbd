import LarderFiles

/// Journal lines that wait until the group of their key is loaded: their places in the journals, 16 bytes each.
struct WaitingLines: Sendable {
    private struct Line {
        /// The journal in the high bits, the offset in the others.
        let place: UInt64
        let length: UInt32
        /// The next line of the same group.
        var next: UInt32
    }

    private static let none = UInt32.max
    private static let offsetBits: UInt64 = 48

    private var journals: [OwnedDescriptor] = []
    private var lines: [Line] = []
    /// The first and the last line of each group.
    private var first: [UInt32]
    private var last: [UInt32]
    /// The earliest expiry in the lines of each group. Milliseconds.
    private var earliest: [Int64]

    init(groups: Int) {
        first = Array(repeating: Self.none, count: groups)
        last = first
        earliest = Array(repeating: .max, count: groups)
    }

    var count: Int { lines.count }

    func hasLines(_ group: Int) -> Bool { first[group] != Self.none }

    /// True when the entry of some line may have expired.
    func mayHaveExpired(_ group: Int, at now: Timestamp) -> Bool { earliest[group] <= now.milliseconds }

    /// Begins the lines of another journal.
    mutating func begin(_ journal: OwnedDescriptor) {
        journals.append(journal)
    }

    /// Appends a line of the last journal. O(1) amortized.
    mutating func append(at offset: Int, length: Int, expires: Int64?, to group: Int) {
        earliest[group] = min(earliest[group], expires ?? .min)
        let place = UInt64(journals.count - 1) << Self.offsetBits | UInt64(offset)
        let position = UInt32(lines.count)
        lines.append(Line(place: place, length: UInt32(length), next: Self.none))
        if last[group] == Self.none { first[group] = position } else { lines[Int(last[group])].next = position }
        last[group] = position
    }

    /// Calls `body` with each line of a group, in the order of the journals.
    func forEach(
        of group: Int, _ body: (_ journal: OwnedDescriptor, _ offset: Int, _ length: Int) throws(Errno) -> Void
    )
        throws(Errno)
    {
        var next = first[group]
        while next != Self.none, case let line = lines[Int(next)] {
            let offset = Int(line.place & (1 << Self.offsetBits - 1))
            try body(journals[Int(line.place >> Self.offsetBits)], offset, Int(line.length))
            next = line.next
        }
    }

    /// Forgets all lines: a new manifest covers them.
    mutating func removeAll() {
        self = WaitingLines(groups: first.count)
    }
}
