/// The request fields that select one of the responses of a URL: those that its `Vary` names (RFC 9111, section 4.1).
///
/// A stored response is selected by every request whose variant equals that of the request it was stored for. Values
/// that mean the same are equal: the order of languages, codings and character sets, and spaces, say nothing.
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

    /// The value in a form that is the same for values of the same meaning: lines combined, spaces around commas
    /// removed. The fields of content negotiation are sets whose members have weights, so their order and their case
    /// say nothing (RFC 9110, sections 12.4 and 12.5). Values with commas that are no lists stay as they are.
    private static func normalized(_ name: String, _ request: [HTTPField]) -> String {
        if ["user-agent", "referer", "from"].contains(name) { return request.value(of: name) ?? "" }
        var members = request.members(of: name)
        if ["accept-language", "accept-encoding", "accept-charset"].contains(name) {
            members = members.map { $0.lowercased().filter { $0 != " " && $0 != "\t" } }.sorted()
        }
        return members.joined(separator: ",")
    }
}

extension HTTPVariant: CustomStringConvertible {
    /// A line for each name, with the value that selects it.
    public var description: String { text }
}
