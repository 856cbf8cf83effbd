import LarderFiles

/// The leading fields of a record: enough to find the group of its key, without decoding the rest.
enum RecordRoute {
    /// A record about one key: its group, and the highest number that the record mentions.
    ///
    /// `isTaken`: a change took that number. `file`: the number of the file that the key's entry uses from here on; nil:
    /// the same as before, or none. `expires`: the earliest time at which the life may end, in milliseconds; nil: any
    /// time.
    case keyed(group: Int, number: UInt64, isTaken: Bool, file: UInt64?, expires: Int64?)
    /// Any other record.
    case whole(Record)
    case damaged

    /// Reads a line that holds only a record. O(its length).
    init(of line: UnsafeRawBufferPointer, among groups: GroupHash) {
        guard let body = RecordScanner.checkedBody(of: line) else {
            self = .damaged
            return
        }
        if let route = Self.quickly(body, groups) {
            self = route
            return
        }
        guard let record = RecordScanner.record(on: line) else {
            self = .damaged
            return
        }
        guard let key = record.key else {
            self = .whole(record)
            return
        }
        var file: UInt64?
        if case .set(let entry) = record { file = entry.file.number }
        self = .keyed(
            group: groups.group(of: key), number: record.highestNumber, isTaken: false, file: file, expires: nil)
    }

    /// The fast path: a record whose fields are in the printed order. Nil for any other.
    private static func quickly(_ body: UnsafeRawBufferPointer, _ groups: GroupHash) -> RecordRoute? {
        var scanner = RecordScanner(bytes: body)
        var (number, other, time) = (UInt64?.none, UInt64?.none, Int64?.none)
        if scanner.skip(#"{"k":"#) {
            guard let group = scanner.group(among: groups), scanner.skip(#","n":"#), scanner.number(&number),
                !scanner.skip(#","l":"#) || scanner.number(&other), let number
            else { return nil }
            guard scanner.skip(#","s":"#), scanner.integer(&time) else { return nil }
            return .keyed(
                group: group, number: max(number, other ?? 0), isTaken: other == nil, file: number,
                expires: scanner.expiry())
        }
        let isRemoval = scanner.skip(#"{"o":"remove","k":"#)
        let isLife = !isRemoval && scanner.skip(#"{"o":"life","k":"#)
        guard isRemoval || isLife || scanner.skip(#"{"o":"used","k":"#),
            let group = scanner.group(among: groups), isRemoval || scanner.skip(#","f":"#) && scanner.number(&other),
            scanner.skip(#","n":"#), scanner.number(&number), let number
        else { return nil }
        // The number of a removal may be that of the file plus one, which another change has taken. A use only prolongs
        // a life.
        let expires = isLife ? scanner.expiry() : Life.unlimited
        return .keyed(group: group, number: max(number, other ?? 0), isTaken: !isRemoval, file: nil, expires: expires)
    }
}

extension RecordScanner {
    /// Reads an expiry; `Life.unlimited` when there is none, nil when it is damaged.
    fileprivate mutating func expiry() -> Int64? {
        if !skip(#","e":"#) { return Life.unlimited }
        var time: Int64?
        return integer(&time) ? time : nil
    }

    /// Reads a key, and its namespace if it has one.
    fileprivate mutating func group(among groups: GroupHash) -> Int? {
        guard let text = plainString() else { return nil }
        if !skip(#","ns":"#) { return groups.group(of: text, in: .none) }
        guard let namespace = plainString() else { return nil }
        return groups.group(of: text, in: namespace)
    }
}

extension Record {
    /// The key that the record is about; nil when it is about several, or none.
    var key: Key? {
        switch self {
        case .set(let entry): entry.key
        case .remove(let key, _), .life(let key, _, _, _, _), .used(let key, _, _, _, _, _): key
        case .obsolete(_, let key): key
        case .header, .clear, .expire, .closed, .groups, .unknown: nil
        }
    }
}
