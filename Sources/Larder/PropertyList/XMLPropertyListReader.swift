import LarderFiles
import LarderFoundation

/// Reads the XML format, in UTF-8: the subset of XML that property lists need, without access to anything outside the
/// file.
struct XMLPropertyListReader {
    private let bytes: UnsafeRawBufferPointer
    private var position = 0

    static func read(_ bytes: UnsafeRawBufferPointer) -> PropertyList? {
        var reader = XMLPropertyListReader(bytes: bytes)
        if bytes.has("\u{FEFF}", at: 0) { reader.position = 3 }
        guard let outer = reader.openingTag() else { return nil }
        guard outer.name == "plist" else { return reader.element(outer, depth: 0) }
        guard !outer.isEmpty, let tag = reader.openingTag(), let list = reader.element(tag, depth: 0),
            reader.closingTag("plist")
        else { return nil }
        return list
    }

    private init(bytes: UnsafeRawBufferPointer) {
        self.bytes = bytes
    }

    private struct Tag {
        let name: String
        /// `<name/>`
        let isEmpty: Bool
    }

    private mutating func element(_ tag: Tag, depth: Int) -> PropertyList? {
        guard depth < PropertyList.deepest else { return nil }
        switch tag.name {
        case "dict": return tag.isEmpty ? .dictionary([]) : dictionary(depth)
        case "array": return tag.isEmpty ? .array([]) : array(depth)
        case "true", "false":
            guard tag.isEmpty || closingTag(tag.name) else { return nil }
            return .boolean(tag.name == "true")
        default:
            guard let text = tag.isEmpty ? "" : text(until: tag.name) else { return nil }
            return Self.scalar(tag.name, text)
        }
    }

    private static func scalar(_ name: String, _ text: String) -> PropertyList? {
        let trimmed = trimmed(text)
        switch name {
        case "string": return .string(text)
        case "integer":
            return integer(trimmed)
        case "real": return Double(trimmed).map(PropertyList.real)
        case "date": return date(trimmed).map(PropertyList.date)
        case "data":
            return Data(base64Encoded: trimmed, options: .ignoreUnknownCharacters).map(PropertyList.data)
        default: return nil
        }
    }

    /// Without the white space around it.
    private static func trimmed(_ text: String) -> String {
        var text = text.drop(while: \.isWhitespace)
        while text.last?.isWhitespace == true { text.removeLast() }
        return String(text)
    }

    private static func integer(_ text: String) -> PropertyList? {
        let isNegative = text.hasPrefix("-")
        let digits = isNegative || text.hasPrefix("+") ? text.dropFirst() : text[...]
        let isHex = digits.hasPrefix("0x") || digits.hasPrefix("0X")
        let magnitude = isHex ? UInt64(digits.dropFirst(2), radix: 16) : UInt64(digits)
        guard let magnitude else { return nil }
        if isNegative {
            return magnitude <= UInt64(Int.max) + 1 ? .integer(Int(truncatingIfNeeded: 0 &- magnitude)) : nil
        }
        return Int(exactly: magnitude).map(PropertyList.integer) ?? .large(magnitude)
    }

    /// Reads `2013-05-01T12:00:00Z`, also with fractional seconds.
    static func date(_ text: String) -> Date? {
        let isDigit = { (byte: UInt8) in (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }
        let digits = text.utf8.split(omittingEmptySubsequences: false) { !isDigit($0) }.map { String($0) ?? "" }
        let marks = text.utf8.filter { !isDigit($0) }
        let hasFraction = marks.elementsEqual("--T::.Z".utf8)
        let fields = digits.compactMap { $0.utf8.count <= 9 ? Int($0) : nil }
        guard hasFraction || marks.elementsEqual("--T::Z".utf8), fields.count == (hasFraction ? 7 : 6),
            (1...12).contains(fields[1]), (1...31).contains(fields[2]), fields[3] < 24, fields[4] < 60, fields[5] < 61
        else { return nil }
        let seconds = days(fields[0], fields[1], fields[2]) * 86_400 + fields[3] * 3600 + fields[4] * 60 + fields[5]
        let fraction = hasFraction ? Double("0." + digits[6]) ?? 0 : 0
        return Date(timeIntervalSince1970: Double(seconds) + fraction)
    }

    /// Days since 1970 in the Gregorian calendar, counted in years that begin in March.
    private static func days(_ year: Int, _ month: Int, _ day: Int) -> Int {
        let shifted = month > 2 ? year : year - 1
        let era = (shifted >= 0 ? shifted : shifted - 399) / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    private mutating func array(_ depth: Int) -> PropertyList? {
        var elements: [PropertyList] = []
        while !closingTag("array") {
            guard let tag = openingTag(), let element = element(tag, depth: depth + 1) else { return nil }
            elements.append(element)
        }
        return .array(elements)
    }

    private mutating func dictionary(_ depth: Int) -> PropertyList? {
        var pairs: [PropertyList.Pair] = []
        while !closingTag("dict") {
            guard let keyTag = openingTag(), keyTag.name == "key", let key = keyTag.isEmpty ? "" : text(until: "key"),
                let tag = openingTag(), let value = element(tag, depth: depth + 1)
            else { return nil }
            pairs.append(PropertyList.Pair(key: key, value: value))
        }
        return .dictionary(pairs)
    }

    /// Reads the next opening tag, ignoring its attributes.
    private mutating func openingTag() -> Tag? {
        skipMisc()
        guard bytes.has("<", at: position), !bytes.has("</", at: position) else { return nil }
        let start = position + 1
        guard skip(past: ">") else { return nil }
        let isEmpty = bytes[position - 2] == UInt8(ascii: "/")
        let content = bytes.part(start..<max(start, position - (isEmpty ? 2 : 1)))
        let name = content.prefix { $0 > UInt8(ascii: " ") }
        return Tag(name: String(decoding: name, as: UTF8.self), isEmpty: isEmpty)
    }

    /// Skips the closing tag with this name, if it is next.
    private mutating func closingTag(_ name: String) -> Bool {
        skipMisc()
        guard bytes.has("</", at: position) else { return false }
        let rest = UnsafeRawBufferPointer(rebasing: bytes[(position + 2)...])
        guard rest.starts(with: name.utf8), rest.dropFirst(name.utf8.count).first == UInt8(ascii: ">") else {
            return false
        }
        position += name.utf8.count + 3
        return true
    }

    /// Skips white space, comments, processing instructions, and a document type without declarations of its own.
    private mutating func skipMisc() {
        while position < bytes.count {
            if bytes[position] <= UInt8(ascii: " ") {
                position += 1
            } else if bytes.has("<!--", at: position) {
                guard skip(past: "-->") else { return }
            } else if bytes.has("<?", at: position) {
                guard skip(past: "?>") else { return }
            } else if bytes.has("<!DOCTYPE", at: position) {
                let start = position
                guard skip(past: ">") else { return }
                if bytes.part(start..<position).contains(UInt8(ascii: "[")) {
                    position = bytes.count
                    return
                }
            } else {
                return
            }
        }
    }

    /// Moves past the next occurrence of `end`; to the end of the bytes when there is none.
    private mutating func skip(past end: StaticString) -> Bool {
        while position < bytes.count {
            if bytes.has(end, at: position) {
                position += end.utf8CodeUnitCount
                return true
            }
            position += 1
        }
        return false
    }

    /// Reads text up to the closing tag; nil when it is not UTF-8 or contains anything but text.
    private mutating func text(until name: String) -> String? {
        var text: [UInt8] = []
        while position < bytes.count {
            switch bytes[position] {
            case UInt8(ascii: "<"):
                if bytes.has("<![CDATA[", at: position) {
                    let start = position + 9
                    guard skip(past: "]]>"), position - 3 >= start else { return nil }
                    text.append(contentsOf: bytes[start..<position - 3])
                } else if bytes.has("<!--", at: position) {
                    guard skip(past: "-->") else { return nil }
                } else {
                    guard closingTag(name) else { return nil }
                    return String(bytes: text, encoding: .utf8)
                }
            case UInt8(ascii: "&"):
                guard let character = entity() else { return nil }
                text.append(contentsOf: String(character).utf8)
            default:
                text.append(bytes[position])
                position += 1
            }
        }
        return nil
    }

    private mutating func entity() -> Character? {
        let rest = bytes[position...].prefix(12)
        guard let end = rest.firstIndex(of: UInt8(ascii: ";")) else { return nil }
        let name = String(decoding: bytes[position + 1..<end], as: UTF8.self)
        position = end + 1
        switch name {
        case "lt": return "<"
        case "gt": return ">"
        case "amp": return "&"
        case "quot": return "\""
        case "apos": return "'"
        default:
            let code =
                name.hasPrefix("#x")
                ? UInt32(name.dropFirst(2), radix: 16) : name.hasPrefix("#") ? UInt32(name.dropFirst()) : nil
            return code.flatMap(Unicode.Scalar.init).map(Character.init)
        }
    }
}
