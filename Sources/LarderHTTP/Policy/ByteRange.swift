/// The field `Range`, as far as a stored whole answers it: one range of bytes (RFC 9110, section 14).
package enum ByteRange {
    /// The bytes that a request wants of a body; nil when it has another unit, several ranges, no satisfiable one, or
    /// text that is none of these: the server decides then.
    package static func bytes(_ value: String, of size: Int) -> Range<Int>? {
        let parts = value.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, HTTPField.trimmed(parts[0]).lowercased() == "bytes" else { return nil }
        let ends = HTTPField.trimmed(parts[1]).split(separator: "-", omittingEmptySubsequences: false).map(String.init)
        guard ends.count == 2 else { return nil }
        if ends[0].isEmpty {
            guard let suffix = Int(digits: ends[1]), suffix > 0, size > 0 else { return nil }
            return max(0, size - suffix)..<size
        }
        guard let first = Int(digits: ends[0]), first < size else { return nil }
        if ends[1].isEmpty { return first..<size }
        guard let last = Int(digits: ends[1]), last >= first else { return nil }
        return first..<min(last, size - 1) + 1
    }

    /// Whether `If-Range` lets a stored response be the answer: it names that very response by a strong validator (RFC
    /// 9110, section 13.1.5). Without the field it does.
    package static func matches(_ request: [HTTPField], _ response: HTTPResponseHead) -> Bool {
        guard let value = request.value(of: "If-Range") else { return true }
        if value.hasPrefix("\"") { return value == response.etag }
        // A date is strong when the response is at least a second younger than its last change (section 8.8.2.2).
        guard let modified = response.date("Last-Modified"), response.fields.value(of: "Last-Modified") == value else {
            return false
        }
        return response.date - modified >= 1
    }
}

extension Int {
    /// Any number of digits.
    fileprivate init?(digits: String) {
        guard !digits.isEmpty, digits.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else {
            return nil
        }
        // Beyond the end of any body.
        self = Int(digits) ?? .max
    }
}
