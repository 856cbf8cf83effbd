package import LarderFiles
public import LarderFoundation

/// A response as a policy sees it: without its body, and with the times that its age is counted from.
public struct HTTPResponseHead: Hashable, Sendable {
    /// The status code.
    public var status: Int
    /// The fields, in their order and with every repetition.
    public var fields: [HTTPField]
    package var requested: Timestamp
    package var received: Timestamp
    /// By how much `received` is ahead of the system's clock. Milliseconds.
    package var lead: Int64

    package init(status: Int, fields: [HTTPField], requested: Timestamp, received: Timestamp, lead: Int64 = 0) {
        self.status = status
        self.fields = fields
        self.requested = requested
        self.received = received
        self.lead = lead
    }

    /// Creates a head.
    ///
    /// - Parameters:
    ///   - status: The status code.
    ///   - fields: The fields.
    ///   - requestedAt: When the request was sent, to the millisecond.
    ///   - receivedAt: When the response arrived, to the millisecond.
    public init(status: Int, fields: [HTTPField], requestedAt: Date, receivedAt: Date) {
        self.init(
            status: status, fields: fields, requested: Timestamp(date: requestedAt),
            received: Timestamp(date: receivedAt))
    }

    /// When the request was sent.
    public var requestedAt: Date { requested.date }

    /// When the response arrived.
    public var receivedAt: Date { received.date }

    package var cacheControl: CacheControl { CacheControl(fields) }

    /// Seconds since 1970 of a field that is a date; nil when it is missing, repeated with another value, or invalid.
    package func date(_ name: String) -> Int64? {
        let values = fields.values(of: name)
        guard let first = values.first, values.allSatisfy({ $0 == first }) else { return nil }
        return HTTPDate.seconds(first, now: received.milliseconds / 1000)
    }

    /// Seconds since 1970; the time of arrival without a usable `Date` (RFC 9110, section 6.6.1).
    package var date: Int64 { date("Date") ?? received.milliseconds / 1000 }

    /// Whether the server made this response after another one; of two from the same second, whether it arrived later
    /// (RFC 9111, section 4).
    package func isMoreRecent(than other: HTTPResponseHead) -> Bool { (date, received) > (other.date, other.received) }

    package var etag: String? { fields.values(of: "ETag").first.flatMap { $0.isEmpty ? nil : $0 } }

    package var hasValidator: Bool { etag != nil || date("Last-Modified") != nil }

    /// Whether a stale response may never be reused without validation (RFC 9111, sections 4.2.4, 5.2.2.2 and 5.2.2.4).
    package var forbidsStale: Bool {
        let directives = cacheControl
        return directives.has("must-revalidate") || needsValidation
    }

    /// Whether each use needs validation: `no-cache` without field names (RFC 9111, section 5.2.2.4).
    package var needsValidation: Bool {
        let directives = cacheControl
        return directives.has("no-cache") && directives.names("no-cache") == nil
    }

    /// The bytes of a metadata record, roughly.
    package var size: Int { fields.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count + 4 } }
}

extension HTTPResponseHead: CustomStringConvertible {
    /// The status and the fields, one per line.
    public var description: String { (["\(status)"] + fields.map(\.description)).joined(separator: "\n") }
}

extension Timestamp {
    /// The millisecond of a date, clamped to ten million years.
    package init(date: Date) {
        let limit = 3.2e17
        self.init(milliseconds: Int64(max(-limit, min((date.timeIntervalSince1970 * 1000).rounded(), limit))))
    }

    package var date: Date { Date(timeIntervalSince1970: Double(milliseconds) / 1000) }
}
