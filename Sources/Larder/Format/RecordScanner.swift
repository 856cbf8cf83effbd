import LarderFiles
import LarderFoundation

/// Reads one record from its line.
///
/// The check is verified first, so a torn or flipped line costs one pass and gives nil. A line with a valid check may
/// still be hostile, so every number is bounded.
struct RecordScanner {
    /// `,"c":"`, 16 hex digits and `"}`.
    static let checkLength = 24

    let bytes: UnsafeRawBufferPointer
    private var position = 0

    /// Returns the record on `line`, which holds only the record; nil when it is damaged. O(its length).
    ///
    /// `isChecked`: the check of a group covers the line, and was right.
    static func record(on line: UnsafeRawBufferPointer, isChecked: Bool = false) -> Record? {
        guard let body = isChecked ? body(of: line)?.body : checkedBody(of: line) else { return nil }
        if let entry = plainEntry(on: body) { return .set(entry) }
        var scanner = RecordScanner(bytes: body)
        var fields = Fields()
        guard scanner.scan(&fields) else { return nil }
        return fields.record
    }

    init(bytes: UnsafeRawBufferPointer) {
        self.bytes = bytes
    }

    /// The fast path for nearly all lines: an entry with no attachment but a coding, its fields in the printed order.
    /// Nil for any other line; its fields are then read one by one.
    private static func plainEntry(on body: UnsafeRawBufferPointer) -> IndexEntry? {
        var scanner = RecordScanner(bytes: body)
        var (key, number, checksum, coding) = (String?.none, UInt64?.none, UInt64?.none, String?.none)
        var (rank, place) = (UInt64?.none, UInt64?.none)
        var (stored, expires, ttl, used, size) = (Int64?.none, Int64?.none, Int64?.none, Int64?.none, Int64?.none)
        guard scanner.skip(#"{"k":"#), scanner.string(&key), scanner.skip(#","n":"#), scanner.number(&number),
            scanner.skip(#","s":"#), scanner.integer(&stored),
            !scanner.skip(#","e":"#) || scanner.integer(&expires),
            !scanner.skip(#","t":"#) || scanner.integer(&ttl),
            !scanner.skip(#","u":"#) || scanner.integer(&used),
            !scanner.skip(#","r":"#) || scanner.number(&rank),
            scanner.skip(#","z":"#), scanner.integer(&size), scanner.skip(#","h":"#), scanner.hex(&checksum),
            !scanner.skip(#","cd":"#) || scanner.string(&coding),
            !scanner.skip(#","w":"#) || scanner.hex(&place),
            scanner.position == body.count
        else { return nil }
        return Fields.entry(
            key: key, number: number, change: nil, stored: stored, life: Fields.life(expires: expires, ttl: ttl),
            used: used, rank: rank, size: size, checksum: checksum, place: place,
            attachments: coding.flatMap { Attachments(.init(coding: Coding($0))) })
    }

    static func checkedBody(of line: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        guard let (body, check) = body(of: line), check == XXH64.hash(body) else { return nil }
        return body
    }

    /// The part of a line that its check covers, and the check.
    private static func body(of line: UnsafeRawBufferPointer) -> (body: UnsafeRawBufferPointer, check: UInt64)? {
        let length = line.count - checkLength
        guard length > 0, line[0] == UInt8(ascii: "{"), line.has(#","c":""#, at: length),
            line.has(#""}"#, at: line.count - 2),
            let check = Hex.number(line.part(length + 6..<length + 22))
        else { return nil }
        return (line.part(0..<length), check)
    }

    /// Reads `{"name":value,"name":value` to the end.
    private mutating func scan(_ fields: inout Fields) -> Bool {
        guard skip(UInt8(ascii: "{")) else { return false }
        while true {
            let start = position
            guard skip(UInt8(ascii: "\"")), let name = name(), skip(UInt8(ascii: ":")), position < bytes.count
            else { return false }
            guard field(name, &fields) ?? unknownField(from: start, &fields) else { return false }
            if position == bytes.count { return true }
            guard skip(UInt8(ascii: ",")) else { return false }
        }
    }

    /// Reads the value of a known field; nil for an unknown name.
    private mutating func field(_ name: UnsafeRawBufferPointer, _ fields: inout Fields) -> Bool? {
        if name.count == 6, name.has("larder", at: 0) { return number(&fields.version) }
        if name.count == 2 { return longField(name, &fields) }
        guard name.count == 1 else { return nil }
        switch name[0] {
        case UInt8(ascii: "k"): return string(&fields.key)
        case UInt8(ascii: "n"): return number(&fields.number)
        case UInt8(ascii: "s"): return integer(&fields.stored)
        case UInt8(ascii: "e"): return integer(&fields.expires)
        case UInt8(ascii: "t"): return integer(&fields.ttl)
        case UInt8(ascii: "u"): return integer(&fields.used)
        case UInt8(ascii: "r"): return number(&fields.rank)
        case UInt8(ascii: "z"): return integer(&fields.size)
        case UInt8(ascii: "h"): return hex(&fields.checksum)
        case UInt8(ascii: "m"): return metadata(&fields.metadata)
        case UInt8(ascii: "l"): return number(&fields.change)
        case UInt8(ascii: "f"): return number(&fields.file)
        case UInt8(ascii: "g"): return number(&fields.generation)
        case UInt8(ascii: "o"): return string(&fields.operation)
        case UInt8(ascii: "w"): return hex(&fields.place)
        default: return nil
        }
    }

    private mutating func longField(_ name: UnsafeRawBufferPointer, _ fields: inout Fields) -> Bool? {
        if name.has("ns", at: 0) { return string(&fields.namespace) }
        if name.has("tg", at: 0) { return strings(&fields.tags) }
        if name.has("ks", at: 0) { return integer(&fields.keptStale) }
        if name.has("ab", at: 0) { return number(&fields.absent) }
        if name.has("mr", at: 0) { return number(&fields.mustRevalidate) }
        if name.has("cd", at: 0) { return string(&fields.coding) }
        if name.has("bt", at: 0) { return hex(&fields.boot) }
        if name.has("sd", at: 0) { return hex(&fields.seed) }
        if name.has("at", at: 0) { return number(&fields.start) }
        if name.has("gr", at: 0) { return groups(&fields.groups) }
        if name.has("jr", at: 0) { return journals(&fields.journals) }
        if name.has("nt", at: 0) { return namespaces(&fields.namespaces) }
        if name.has("to", at: 0) { return totals(&fields.totals) }
        return nil
    }

    private mutating func unknownField(from start: Int, _ fields: inout Fields) -> Bool {
        guard skipValue() else { return false }
        fields.unknown.append(UInt8(ascii: ","))
        fields.unknown.append(contentsOf: bytes[start..<position])
        return true
    }

    /// Skips a value of any kind, up to the next comma outside of strings and brackets.
    private mutating func skipValue() -> Bool {
        var depth = 0
        let start = position
        while position < bytes.count {
            switch bytes[position] {
            case UInt8(ascii: "\""):
                position += 1
                while position < bytes.count, bytes[position] != UInt8(ascii: "\"") {
                    position += bytes[position] == UInt8(ascii: "\\") ? 2 : 1
                }
                if position >= bytes.count { return false }
            case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
            case UInt8(ascii: ",") where depth == 0: return position > start
            default: break
            }
            if depth < 0 { return false }
            position += 1
        }
        return depth == 0 && position > start
    }

    private mutating func skip(_ byte: UInt8) -> Bool {
        guard position < bytes.count, bytes[position] == byte else { return false }
        position += 1
        return true
    }

    mutating func skip(_ text: StaticString) -> Bool {
        guard bytes.has(text, at: position) else { return false }
        position += text.utf8CodeUnitCount
        return true
    }

    /// Reads a field name up to its closing quote. Names have no escapes.
    private mutating func name() -> UnsafeRawBufferPointer? {
        let start = position
        while position < bytes.count, bytes[position] != UInt8(ascii: "\"") { position += 1 }
        guard position < bytes.count else { return nil }
        defer { position += 1 }
        return bytes.part(start..<position)
    }

    mutating func integer(_ value: inout Int64?) -> Bool {
        let isNegative = skip(UInt8(ascii: "-"))
        let start = position
        var result: Int64 = 0
        while position < bytes.count, case let digit = bytes[position] &- UInt8(ascii: "0"), digit < 10 {
            let (product, overflow1) = result.multipliedReportingOverflow(by: 10)
            let (sum, overflow2) = product.addingReportingOverflow(Int64(digit))
            if overflow1 || overflow2 { return false }
            result = sum
            position += 1
        }
        value = isNegative ? -result : result
        return position > start
    }

    mutating func number(_ value: inout UInt64?) -> Bool {
        var signed: Int64?
        guard integer(&signed), let signed, signed >= 0, signed <= Int64(Record.lastNumber) else { return false }
        value = UInt64(signed)
        return true
    }

    private mutating func hex(_ value: inout UInt64?) -> Bool {
        guard skip(UInt8(ascii: "\"")), bytes.count - position > 16 else { return false }
        value = Hex.number(bytes.part(position..<position + 16))
        position += 16
        return value != nil && skip(UInt8(ascii: "\""))
    }

    private mutating func groups(_ groups: inout [GroupTable.Group]?) -> Bool {
        var found: [GroupTable.Group] = []
        defer { groups = found }
        guard skip(UInt8(ascii: "[")) else { return false }
        repeat {
            var group = GroupTable.Group()
            var (check, earliest, latest) = (UInt64?.none, Int64?.none, Int64?.none)
            guard skip(UInt8(ascii: "[")), sum(&group.length), skip(UInt8(ascii: ",")), sums(&group.totals),
                skip(UInt8(ascii: ",")), skip("null") || integer(&earliest),
                skip(UInt8(ascii: ",")), skip("null") || integer(&latest),
                skip(UInt8(ascii: ",")), hex(&check), skip(UInt8(ascii: "]")), let check
            else { return false }
            group.earliest = earliest.map { Timestamp(milliseconds: $0) }
            group.latest = latest.map { Timestamp(milliseconds: $0) }
            group.check = check
            found.append(group)
        } while skip(UInt8(ascii: ",")) && found.count < GroupTable.mostGroups
        return skip(UInt8(ascii: "]"))
    }

    private mutating func journals(_ journals: inout [JournalPart]?) -> Bool {
        var found: [JournalPart] = []
        defer { journals = found }
        guard skip(UInt8(ascii: "[")) else { return false }
        repeat {
            var (generation, length) = (UInt64?.none, 0)
            guard skip(UInt8(ascii: "[")), number(&generation), let generation, skip(UInt8(ascii: ",")), sum(&length),
                skip(UInt8(ascii: "]"))
            else { return false }
            found.append(JournalPart(generation: generation, length: length))
        } while skip(UInt8(ascii: ",")) && found.count < GroupTable.mostJournals
        return skip(UInt8(ascii: "]"))
    }

    private mutating func namespaces(_ namespaces: inout [Namespace: EntryTotals]?) -> Bool {
        var found: [Namespace: EntryTotals] = [:]
        defer { namespaces = found }
        guard skip(UInt8(ascii: "[")) else { return false }
        if skip(UInt8(ascii: "]")) { return true }
        repeat {
            var (name, totals) = (String?.none, EntryTotals())
            guard skip(UInt8(ascii: "[")), string(&name), let name, skip(UInt8(ascii: ",")), sums(&totals),
                skip(UInt8(ascii: "]"))
            else { return false }
            found[Namespace(name)] = totals
        } while skip(UInt8(ascii: ",")) && found.count < SavedTotals.mostNamespaces
        return skip(UInt8(ascii: "]"))
    }

    private mutating func totals(_ totals: inout EntryTotals?) -> Bool {
        var found = EntryTotals()
        defer { totals = found }
        return skip(UInt8(ascii: "[")) && sums(&found) && skip(UInt8(ascii: "]"))
    }

    /// Reads three sums with commas between them.
    private mutating func sums(_ totals: inout EntryTotals) -> Bool {
        sum(&totals.count) && skip(UInt8(ascii: ",")) && sum(&totals.size) && skip(UInt8(ascii: ","))
            && sum(&totals.allocatedSize)
    }

    private mutating func sum(_ sum: inout Int) -> Bool {
        var value: Int64?
        guard integer(&value), let value, GroupTable.isPlausible(value) else { return false }
        sum = Int(value)
        return true
    }

    private mutating func strings(_ strings: inout [String]?) -> Bool {
        var value: [String] = []
        defer { strings = value }
        guard skip(UInt8(ascii: "[")) else { return false }
        if skip(UInt8(ascii: "]")) { return true }
        repeat {
            var text: String?
            guard string(&text), let text else { return false }
            value.append(text)
        } while skip(UInt8(ascii: ","))
        return skip(UInt8(ascii: "]"))
    }

    private mutating func metadata(_ metadata: inout [String: String]?) -> Bool {
        var value: [String: String] = [:]
        defer { metadata = value }
        guard skip(UInt8(ascii: "{")) else { return false }
        if skip(UInt8(ascii: "}")) { return true }
        repeat {
            var name: String?
            var text: String?
            guard string(&name), skip(UInt8(ascii: ":")), string(&text), let name else { return false }
            value[name] = text
        } while skip(UInt8(ascii: ","))
        return skip(UInt8(ascii: "}"))
    }

    /// Reads the bytes of a string without escapes; nil for any other.
    mutating func plainString() -> UnsafeRawBufferPointer? {
        guard skip(UInt8(ascii: "\"")), position < bytes.count, let start = bytes.baseAddress,
            let end = memchr(start + position, Int32(UInt8(ascii: "\"")), bytes.count - position)
        else { return nil }
        let text = bytes.part(position..<UnsafeRawPointer(end) - start)
        if memchr(start + position, Int32(UInt8(ascii: "\\")), text.count) != nil { return nil }
        position += text.count + 1
        return text
    }

    /// Reads a string, in one piece when it has no escapes.
    private mutating func string(_ value: inout String?) -> Bool {
        guard skip(UInt8(ascii: "\"")) else { return false }
        let start = position
        while position < bytes.count, bytes[position] != UInt8(ascii: "\"") {
            if bytes[position] == UInt8(ascii: "\\") { return escapedString(from: start, &value) }
            position += 1
        }
        guard position < bytes.count else { return false }
        value = String(decoding: bytes.part(start..<position), as: UTF8.self)
        position += 1
        return true
    }

    private mutating func escapedString(from start: Int, _ value: inout String?) -> Bool {
        var text = [UInt8](bytes[start..<position])
        while position < bytes.count {
            let byte = bytes[position]
            position += 1
            switch byte {
            case UInt8(ascii: "\""):
                value = String(decoding: text, as: UTF8.self)
                return true
            case UInt8(ascii: "\\"):
                guard let byte = escape() else { return false }
                text.append(byte)
            default:
                text.append(byte)
            }
        }
        return false
    }

    /// Reads the rest of an escape. Only the escapes that the printer writes are valid.
    private mutating func escape() -> UInt8? {
        guard position < bytes.count else { return nil }
        let byte = bytes[position]
        position += 1
        if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { return byte }
        guard byte == UInt8(ascii: "u"), bytes.count - position >= 4 else { return nil }
        let digits = String(decoding: bytes.part(position..<position + 4), as: UTF8.self)
        position += 4
        return UInt8(digits, radix: 16)
    }
}
