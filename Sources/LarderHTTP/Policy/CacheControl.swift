/// The directives of the field `Cache-Control` (RFC 9111, section 5.2), however often the field occurs.
package struct CacheControl: Sendable {
    /// A directive's argument, as far as the cache needs it.
    enum Argument: Hashable {
        case none
        case text(String)
        /// A space around "=", or text that is no token.
        case invalid
    }

    private var directives: [(name: String, argument: Argument)] = []
    /// Whether a quoted string has no end, so that the directives after it are unknown.
    private(set) var isUnterminated = false
    private var raw = ""

    package init(_ fields: [HTTPField]) {
        // Each line is parsed alone: a quote that one of them leaves open does not hide the directives of the next.
        for line in fields.values(of: "Cache-Control") { parse(line) }
    }

    /// The greatest number of seconds (RFC 9111, section 1.2.2).
    static let longest: Int64 = 1 << 31

    /// Whether a directive is there, whatever its argument.
    package func has(_ name: String) -> Bool { directives.contains { $0.name == name } }

    /// A number of seconds, at most 2³¹; nil without the directive. An argument that is no number counts as `invalid`,
    /// and so do different ones (RFC 9111, section 4.2.1: invalid freshness information means stale).
    package func seconds(_ name: String, invalid: Int64 = 0) -> Int64? {
        let arguments = directives.filter { $0.name == name }.map(\.argument)
        guard let first = arguments.first else { return nil }
        guard arguments.allSatisfy({ $0 == first }), case .text(let text) = first else { return invalid }
        return Self.number(text) ?? invalid
    }

    /// A directive that is allowed to have no argument, such as `max-stale`; then `missing`.
    func seconds(_ name: String, missing: Int64) -> Int64? {
        guard has(name) else { return nil }
        return directives.contains { $0.name == name && $0.argument != .none } ? seconds(name) : missing
    }

    /// The names in the arguments of a directive, such as `no-cache="Set-Cookie"`; nil when it occurs without a list of
    /// names, and so concerns the whole response.
    func names(_ directive: String) -> [String]? {
        var names: [String] = []
        for (name, argument) in directives where name == directive {
            guard case .text(let text) = argument else { return nil }
            let members = [HTTPField].members(text)
            if members.isEmpty { return nil }
            names += members
        }
        return names
    }

    /// Whether nothing may be stored. `must-understand` cancels it where the status is understood (RFC 9111, sections
    /// 5.2.1.5, 5.2.2.3 and 5.2.2.5).
    package func forbidsStoring(understood: Bool) -> Bool {
        // After an unclosed quote, directives and text look alike.
        if isUnterminated, raw.contains("no-store") { return true }
        return has("no-store") && !(has("must-understand") && understood)
    }

    /// A number of seconds in milliseconds, at most the greatest number.
    static func milliseconds(_ seconds: Int64) -> Int64 { seconds > Int64.max / 1000 ? .max : seconds * 1000 }

    /// A number of seconds: digits only, and 2³¹ when there are too many (RFC 9111, section 1.2.2).
    static func number(_ text: String) -> Int64? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else {
            return nil
        }
        return min(Int64(text) ?? longest, longest)
    }

    private mutating func parse(_ line: String) {
        raw += line.lowercased() + ","
        var rest = Array(line.utf8)[...]
        while true {
            rest = rest.drop { $0 == UInt8(ascii: ",") || Self.isSpace($0) }
            if rest.isEmpty { return }
            // A semicolon is no separator, but it does not hide the directive before it.
            let name = rest.prefix { !Self.endsName($0) }
            rest = rest.dropFirst(name.count)
            let argument = parseArgument(&rest)
            directives.append((String(decoding: name, as: UTF8.self).lowercased(), argument))
        }
    }

    private mutating func parseArgument(_ rest: inout ArraySlice<UInt8>) -> Argument {
        func skip() -> ArraySlice<UInt8> {
            let skipped = rest.prefix { $0 != UInt8(ascii: ",") }
            rest = rest.dropFirst(skipped.count)
            return skipped
        }
        guard rest.first == UInt8(ascii: "=") else {
            return skip().allSatisfy(Self.isSpace) ? .none : .invalid
        }
        rest = rest.dropFirst()
        guard rest.first == UInt8(ascii: "\"") else {
            // A space after "=" is invalid, one before the next comma is not.
            let raw = String(decoding: skip(), as: UTF8.self)
            let text = HTTPField.trimmed(raw)
            let isToken =
                !text.isEmpty && raw.hasPrefix(text)
                && !text.utf8.contains { Self.isSpace($0) || $0 == UInt8(ascii: "\"") }
            return isToken ? .text(text) : .invalid
        }
        rest = rest.dropFirst()
        var text: [UInt8] = []
        var isTerminated = false
        while !isTerminated, let byte = rest.popFirst() {
            if byte == UInt8(ascii: "\"") {
                isTerminated = true
            } else if byte == UInt8(ascii: "\\"), let escaped = rest.popFirst() {
                text.append(escaped)
            } else {
                text.append(byte)
            }
        }
        guard isTerminated else {
            isUnterminated = true
            return .invalid
        }
        return skip().allSatisfy(Self.isSpace) ? .text(String(decoding: text, as: UTF8.self)) : .invalid
    }

    private static func endsName(_ byte: UInt8) -> Bool {
        isSpace(byte) || byte == UInt8(ascii: ",") || byte == UInt8(ascii: "=") || byte == UInt8(ascii: ";")
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
}
