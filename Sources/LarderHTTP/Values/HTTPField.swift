/// One field line of a request or response: a name and a value (RFC 9110, section 5).
///
/// Arrays of fields keep their order, and a name may occur several times: two lines `Cache-Control` are two elements.
public struct HTTPField: Hashable, Sendable {
    /// The name, spelled as it was received. Names are compared without regard to case.
    public var name: String
    /// The value, without leading and trailing spaces and tabs.
    public var value: String

    /// Creates a field. Spaces and tabs around the value are removed (RFC 9110, section 5.5).
    public init(_ name: String, _ value: String) {
        self.name = name
        self.value = Self.trimmed(value)
    }

    /// Whether the names are equal without regard to case, as far as ASCII goes. O(n).
    package static func isEqual(_ left: some StringProtocol, _ right: some StringProtocol) -> Bool {
        left.utf8.count == right.utf8.count
            && zip(left.utf8, right.utf8).allSatisfy { $0 == $1 || lower($0) == lower($1) }
    }

    private static func lower(_ byte: UInt8) -> UInt8 {
        (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
    }

    /// The text without spaces and tabs at both ends.
    package static func trimmed(_ text: some StringProtocol) -> String {
        func isSpace(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
        let bytes = text.utf8
        guard let first = bytes.firstIndex(where: { !isSpace($0) }) else { return "" }
        var end = bytes.endIndex
        while isSpace(bytes[bytes.index(end, offsetBy: -1)]) { end = bytes.index(end, offsetBy: -1) }
        return String(text[first..<end])
    }

    /// Whether a text is a token, such as a name or a method (RFC 9110, section 5.6.2).
    package static func isToken(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "a")...UInt8(ascii: "z"):
                    true
                default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
                }
            }
    }

    /// A line as in a message; nil without a colon. Characters are bytes here: an accent that combines with a colon
    /// does not hide it.
    init?(line: String) {
        guard let colon = line.utf8.firstIndex(of: UInt8(ascii: ":")) else { return nil }
        self.init(String(line[..<colon]), String(line[line.utf8.index(after: colon)...]))
    }

    /// Whether a name or value can be written as one line: it has no line break and no NUL (RFC 9110, section 5.5).
    var isWritable: Bool {
        !name.isEmpty && !name.utf8.contains { $0 <= 0x20 || $0 == UInt8(ascii: ":") || $0 == 0x7F }
            && !value.utf8.contains { $0 == 0x0A || $0 == 0x0D || $0 == 0 }
    }
}

extension HTTPField: CustomStringConvertible {
    /// The line: `name: value`.
    public var description: String { "\(name): \(value)" }
}

extension [HTTPField] {
    /// Returns the values of all lines with a name, in their order.
    package func values(of name: String) -> [String] {
        compactMap { HTTPField.isEqual($0.name, name) ? $0.value : nil }
    }

    /// Returns the value of a field: all its lines, joined by commas (RFC 9110, section 5.3); nil without one.
    package func value(of name: String) -> String? {
        let values = values(of: name)
        return values.isEmpty ? nil : values.joined(separator: ", ")
    }

    package func has(_ name: String) -> Bool { contains { HTTPField.isEqual($0.name, name) } }

    package mutating func remove(_ name: String) {
        removeAll { HTTPField.isEqual($0.name, name) }
    }

    /// Replaces all lines with a name by one.
    package mutating func set(_ name: String, _ value: String) {
        remove(name)
        append(HTTPField(name, value))
    }

    /// Returns the members of a list: all lines with a name, split at commas outside quotes, without empty members
    /// (RFC 9110, section 5.6.1).
    package func members(of name: String) -> [String] {
        values(of: name).flatMap(Self.members)
    }

    package static func members(_ value: String) -> [String] {
        var members: [String] = []
        var member: [UInt8] = []
        var (isQuoted, isEscaped) = (false, false)
        for byte in value.utf8 {
            if byte == UInt8(ascii: ","), !isQuoted {
                members.append(HTTPField.trimmed(String(decoding: member, as: UTF8.self)))
                member = []
                continue
            }
            member.append(byte)
            if isEscaped {
                isEscaped = false
            } else if byte == UInt8(ascii: "\\") {
                isEscaped = isQuoted
            } else if byte == UInt8(ascii: "\"") {
                isQuoted.toggle()
            }
        }
        members.append(HTTPField.trimmed(String(decoding: member, as: UTF8.self)))
        return members.filter { !$0.isEmpty }
    }
}
