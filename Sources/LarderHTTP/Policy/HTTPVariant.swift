/// The request fields that select one of the responses of a URL: those that its `Vary` names (RFC 9111, section 4.1).
///
/// A stored response is selected by every request whose variant equals that of the request it was stored for. Values
/// that are known to mean the same are equal: in lists of preferences, spaces and case say nothing, nor does the order of
/// codings, of character sets, and of languages with different weights.
public struct HTTPVariant: Hashable, Sendable {
    /// The names in `Vary`, in small letters, each once, sorted.
    public let names: [String]
    /// A line for each name and its normalized value.
    package let text: String

    /// The variant of a response that a request selects.
    public init(of response: HTTPResponseHead, for request: HTTPRequestHead) {
        self.init(response.fields, for: request.fields)
    }

    /// The variant of a response with these fields, asked for by a request with those.
    package init(_ response: [HTTPField], for request: [HTTPField]) {
        self.init(names: response.members(of: "Vary"), for: request)
    }

    /// The variant that a request selects among the responses that vary by these names.
    package init(names: [String], for request: [HTTPField]) {
        self.names = Array(Set(names.map { $0.lowercased() })).sorted()
        text = self.names.map { name in
            guard request.has(name) else { return "\(name)\n" }
            return "\(name): \(Self.normalized(name, request))\n"
        }.joined()
    }

    /// The value in a form that is the same for values of the same meaning, in the fields of content negotiation (RFC
    /// 9110, section 12.5). Among languages of the same weight some servers take the first one, so their order counts
    /// (section 12.5.4). Any other field need not be a list: its lines are combined, and nothing else.
    private static func normalized(_ name: String, _ request: [HTTPField]) -> String {
        switch name {
        case "accept": return request.members(of: name).joined(separator: ",")
        case "accept-encoding", "accept-charset":
            return preferences(name, request).sorted().joined(separator: ",")
        case "accept-language":
            let languages = preferences(name, request).enumerated().map { place, text in
                (place: place, text: text, weight: weight(of: text))
            }
            return languages.sorted { ($1.weight, $0.place) < ($0.weight, $1.place) }.map(\.text)
                .joined(separator: ",")
        default: return request.value(of: name) ?? ""
        }
    }

    private static func preferences(_ name: String, _ request: [HTTPField]) -> [String] {
        request.members(of: name).map { $0.lowercased().filter { $0 != " " && $0 != "\t" } }
    }

    /// From 0 to 1; 1 by default (RFC 9110, section 12.4.2).
    private static func weight(of preference: String) -> Double {
        let parameter = preference.split(separator: ";").dropFirst().first { $0.hasPrefix("q=") }
        return parameter.flatMap { Double($0.dropFirst(2)) }.map { max(0, min(1, $0)) } ?? 1
    }
}

extension HTTPVariant: CustomStringConvertible {
    /// A line for each name, with the value that selects it.
    public var description: String { text }
}
