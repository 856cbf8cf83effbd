import Foundation
import Larder

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// How long a response is fresh in a private cache (RFC 9111, sections 4.2 and 5.2.2).
nonisolated struct Freshness {
    /// Zero: do not store.
    var ttl: TimeToLive
    var mustRevalidate = false

    /// A 304 without Cache-Control goes by the `known` one.
    init(_ response: HTTPURLResponse, known: String?) {
        var directives: [String: String] = [:]
        let said = response.value(forHTTPHeaderField: "Cache-Control")
        for directive in (said ?? (response.statusCode == 304 ? known : nil) ?? "").split(separator: ",") {
            let parts = directive.split(separator: "=", maxSplits: 1).map { $0.trimmingCharacters(in: .whitespaces) }
            if let name = parts.first?.lowercased() { directives[name] = parts.count > 1 ? parts[1] : "" }
        }
        if directives["no-store"] != nil {
            ttl = .seconds(0)
            return
        }
        mustRevalidate = directives["must-revalidate"] != nil || directives["no-cache"] != nil
        let lifetime = directives["no-cache"] != nil ? 0 : Self.lifetime(directives["max-age"], response)
        let age = response.value(forHTTPHeaderField: "Age").flatMap(Double.init) ?? 0
        // A response that is stale at once gets a life of a millisecond, so that it is kept for revalidation.
        ttl = .seconds(max(0.001, lifetime - age))
    }

    /// Seconds.
    private static func lifetime(_ maxAge: String?, _ response: HTTPURLResponse) -> Double {
        if let maxAge { return Double(maxAge) ?? 0 }
        let date = date("Date", response) ?? Date()
        if let expires = response.value(forHTTPHeaderField: "Expires") {
            // An invalid date, such as "0", is in the past.
            return expires.isEmpty ? 0 : Self.date("Expires", response)?.timeIntervalSince(date) ?? 0
        }
        // Otherwise the RFC suggests a tenth of the time since the last change; here a day at most.
        guard let modified = Self.date("Last-Modified", response) else { return 0 }
        return min(max(0, date.timeIntervalSince(modified) / 10), 86_400)
    }

    private static func date(_ name: String, _ response: HTTPURLResponse) -> Date? {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "GMT")
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        return response.value(forHTTPHeaderField: name).flatMap(formatter.date(from:))
    }
}
