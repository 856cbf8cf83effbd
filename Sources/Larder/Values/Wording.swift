import LarderFoundation

/// The words of the descriptions of public values: short, on one line, the same in every locale.
enum Wording {
    /// A caller's text is cut to this many characters.
    private static let limit = 100
    /// The dates that ISO 8601 writes with a year of four digits.
    private static let years =
        Date(timeIntervalSince1970: -62_135_596_800)..<Date(timeIntervalSince1970: 253_402_300_800)

    /// A caller's value as it describes itself, cut and on one line; of an optional, the value inside.
    static func value(_ value: Any) -> String {
        let mirror = Mirror(reflecting: value)
        if mirror.displayStyle == .optional {
            return mirror.children.first.map { Wording.value($0.value) } ?? "nil"
        }
        return cut(String(describing: value))
    }

    /// A key, namespace or tag in quotation marks.
    static func quoted(_ text: String) -> String { cut(text).debugDescription }

    /// The first of several keys or tags.
    static func list(_ texts: [String]) -> String {
        let first = texts.prefix(3).map(quoted).joined(separator: ", ")
        return texts.count > 3 ? "\(first) and \(texts.count - 3) more" : first
    }

    /// The metadata of a value, sorted by name.
    static func metadata(_ metadata: [String: String]) -> String {
        let pairs = metadata.sorted { $0.key < $1.key }.map { "\(quoted($0.key)): \(quoted($0.value))" }
        return "metadata [\(pairs.joined(separator: ", "))]"
    }

    private static func cut(_ text: String) -> String {
        let head = text.prefix(limit)
        let line = head.split(whereSeparator: \.isNewline).joined(separator: " ")
        return head.endIndex < text.endIndex ? line + "…" : line
    }

    /// A date in ISO 8601, UTC, to the second.
    static func date(_ date: Date) -> String {
        if years.contains(date) { return date.ISO8601Format() }
        return date < years.lowerBound ? "before the year 1" : "after the year 9999"
    }

    /// The expiry of a value; nil: never.
    static func expiry(_ date: Date?) -> String {
        date.map { "expires \(Wording.date($0))" } ?? "never expires"
    }

    /// A duration in its two largest units at most: "250 ms", "3.2 s", "5 min", "1 day 2 h".
    static func duration(milliseconds: Int64) -> String {
        if milliseconds < 1000 { return "\(milliseconds) ms" }
        let (seconds, tenths) = (milliseconds / 1000, milliseconds % 1000 / 100)
        if seconds < 60 { return tenths == 0 ? "\(seconds) s" : "\(seconds).\(tenths) s" }
        let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400)
        if hours == 0 { return "\(minutes) min" + rest(seconds % 60, "s") }
        if days == 0 { return "\(hours) h" + rest(minutes % 60, "min") }
        return number(days, "day", "days") + rest(hours % 24, "h")
    }

    static func duration(_ duration: Duration) -> String { Wording.duration(milliseconds: duration.milliseconds) }

    private static func rest(_ number: Int64, _ unit: String) -> String { number == 0 ? "" : " \(number) \(unit)" }

    /// A number with the word for it.
    static func number(_ number: some BinaryInteger, _ one: String, _ many: String) -> String {
        "\(number) \(number == 1 ? one : many)"
    }

    /// Numbers with their words, without those that are 0.
    static func counts(_ counts: KeyValuePairs<String, Int>) -> [String] {
        counts.filter { $0.value != 0 }.map { "\($0.value) \($0.key)" }
    }
}
