import Larder
package import LarderFiles
public import LarderFoundation

/// The decisions of a private HTTP cache after RFC 9111, without clock, file or network: what may be stored, how long
/// it is fresh, when the server is asked, and how its answers change what is stored. ``HTTPCache`` acts as it says; so
/// can a private cache with a store of its own. It is no policy for a cache that several users share: it ignores
/// `private`, `s-maxage` and `proxy-revalidate`. The section of the RFC is at each decision in the source.
///
///     let policy = HTTPCachePolicy()
///     if policy.mayStore(response, to: request) {
///         print(policy.freshnessLifetime(of: response), policy.reuse(of: response, for: request, at: Date()))
///     }
///
/// Each decision costs O(n) in the size of the fields.
public struct HTTPCachePolicy: Hashable, Sendable {
    /// A response with more fields is not stored. Default: 256.
    public var maximumFieldCount = 256
    /// A response with more bytes of names and values is not stored. Default: 64 KiB.
    public var maximumFieldSize = 64 << 10
    /// How long after its freshness a response may be the answer when the server cannot be reached. Default: a week.
    public var staleIfUnreachable: Duration = .days(7)
    /// How long after its freshness a response is kept at least, to be validated. It is kept as long as it may be the
    /// answer, too: as ``staleIfUnreachable`` and its own `stale-while-revalidate` and `stale-if-error` say. Default: a
    /// week.
    public var keepStale: Duration = .days(7)

    /// Creates a policy with the documented defaults.
    public init() {}

    /// The status codes that may be fresh without an explicit lifetime (RFC 9110, section 15.1), except 206.
    private static let heuristicallyCacheable: Set = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501]

    /// The final status codes whose caching rules are implemented (RFC 9111, section 3, and 5.2.2.3).
    private static let understood = heuristicallyCacheable.union([
        201, 202, 205, 302, 303, 307, 400, 401, 403, 406, 409, 411, 413, 415, 421, 422, 426, 500, 502, 503, 504, 505,
    ])

    /// The status codes that are never stored. They answer what only one request has said: parts and unsatisfiable
    /// ranges (section 3.3 permits that), preconditions, expectations, and a proxy's demand. 428, 429, 431 and 511 must
    /// not be stored (RFC 6585, sections 3 to 6).
    private static let individual: Set = [206, 304, 407, 412, 416, 417, 428, 429, 431, 511]

    /// Returns whether a response may be stored, and is worth it: it can be fresh, be validated, or be used stale.
    public func mayStore(_ response: HTTPResponseHead, to request: HTTPRequestHead) -> Bool {
        let directives = response.cacheControl
        // Section 3: the method is understood. Only GET is stored here; a HEAD is answered from it.
        guard request.method == "GET" else { return false }
        // Section 3: the status is final.
        guard (200...599).contains(response.status), !Self.individual.contains(response.status) else { return false }
        // Section 3 and 5.2.2.3: with must-understand, only a status that is understood.
        let isUnderstood = Self.understood.contains(response.status)
        if directives.has("must-understand"), !isUnderstood { return false }
        // Sections 5.2.1.5 and 5.2.2.5.
        if directives.forbidsStoring(understood: isUnderstood) { return false }
        if request.cacheControl.forbidsStoring(understood: false) { return false }
        guard isSafelyVaried(response), isWithinLimits(response) else { return false }
        // Section 3: something allows storing. `private` is no obstacle, nor is Authorization (section 3.5): both
        // concern shared caches.
        let isAllowed =
            directives.has("public") || directives.has("private") || directives.has("max-age")
            || response.fields.has("Expires") || Self.heuristicallyCacheable.contains(response.status)
        return isAllowed && (lifetime(of: response) > 0 || response.hasValidator || hasStaleWindow(response))
    }

    private func hasStaleWindow(_ response: HTTPResponseHead) -> Bool {
        let directives = response.cacheControl
        return !response.forbidsStale
            && ["stale-while-revalidate", "stale-if-error"].contains { (directives.seconds($0) ?? 0) > 0 }
    }

    /// Whether the fields that select a variant may be kept: not `*` (section 4.1), nothing that is no name, behind
    /// which a `*` may hide, and no secret, because keys and metadata are readable on disk.
    private func isSafelyVaried(_ response: HTTPResponseHead) -> Bool {
        response.fields.members(of: "Vary").map { $0.lowercased() }.allSatisfy { name in
            name != "*" && HTTPField.isToken(name)
                && !["authorization", "proxy-authorization", "cookie"].contains(name)
        }
    }

    private func isWithinLimits(_ response: HTTPResponseHead) -> Bool {
        response.fields.count <= maximumFieldCount && response.size <= maximumFieldSize
            && response.fields.allSatisfy(\.isWritable)
    }

    /// Returns whether a body of this size is whole: shorter or longer than `Content-Length`, it is not stored (RFC
    /// 9112, section 8: an incomplete message).
    package func isWhole(_ size: Int, _ response: HTTPResponseHead) -> Bool {
        let lengths = response.fields.members(of: "Content-Length")
        return lengths.allSatisfy { CacheControl.number($0) != nil && Int($0) == size }
    }

    /// Returns how long a response is fresh from the moment at which the server made it; zero: not at all (section
    /// 4.2.1). It is fresh while its age is less.
    public func freshnessLifetime(of response: HTTPResponseHead) -> Duration {
        .milliseconds(lifetime(of: response))
    }

    /// Milliseconds.
    package func lifetime(of response: HTTPResponseHead) -> Int64 {
        let directives = response.cacheControl
        if directives.isUnterminated { return 0 }
        // `s-maxage` is for shared caches. `max-age` wins over Expires, even where it is invalid.
        if let seconds = directives.seconds("max-age") { return seconds * 1000 }
        if response.fields.has("Expires") {
            // Section 5.3: an invalid or repeated date, such as "0", is in the past.
            guard let expires = response.date("Expires") else { return 0 }
            return max(0, expires - response.date) * 1000
        }
        return heuristicLifetime(of: response, isPublic: directives.has("public"))
    }

    /// Section 4.2.2: a tenth of the time since the last change, here a day at most.
    private func heuristicLifetime(of response: HTTPResponseHead, isPublic: Bool) -> Int64 {
        guard isPublic || Self.heuristicallyCacheable.contains(response.status),
            let modified = response.date("Last-Modified")
        else { return 0 }
        return min(max(0, response.date - modified) * 100, 86_400_000)
    }

    /// Returns the age of a response: the time since the server made or confirmed it, by the clock that makes it older
    /// (section 4.2.3).
    public func age(of response: HTTPResponseHead, at now: Date) -> Duration {
        .milliseconds(age(of: response, at: Timestamp(date: now)))
    }

    /// Milliseconds.
    package func age(of response: HTTPResponseHead, at now: Timestamp) -> Int64 {
        let received = response.received.advanced(byMilliseconds: -response.lead).milliseconds
        // A server whose clock is slow makes its responses older; one whose clock is fast does not make them younger.
        // Whole seconds, because dates have no others: no part of a second is an age.
        let apparent = max(0, received / 1000 - response.date) * 1000
        let delay = max(0, response.received.millisecondsSince(response.requested))
        let corrected = Self.ageField(of: response) * 1000 + delay
        return max(apparent, corrected) + max(0, now.millisecondsSince(response.received))
    }

    /// Seconds in the field Age: the first of a list, and 0 when that is no number (section 5.1).
    private static func ageField(of response: HTTPResponseHead) -> Int64 {
        response.fields.members(of: "Age").first.flatMap(CacheControl.number) ?? 0
    }

    /// Milliseconds for which a response remains fresh; negative or zero: stale.
    package func remaining(of response: HTTPResponseHead, at now: Timestamp) -> Int64 {
        // A response from the future was stored before the clock was set back: its age is unknown.
        if response.received.millisecondsSince(now) > 60_000 { return 0 }
        return lifetime(of: response) - age(of: response, at: now)
    }
}

extension HTTPCachePolicy: CustomStringConvertible {
    /// The settings by name.
    public var description: String {
        "maximumFieldCount: \(maximumFieldCount), maximumFieldSize: \(maximumFieldSize), "
            + "staleIfUnreachable: \(staleIfUnreachable), keepStale: \(keepStale)"
    }
}

extension Duration {
    /// Milliseconds, from 0 to those of a thousand years, so that sums do not overflow.
    var boundedMilliseconds: Int64 { Int64(max(0, min(self / .milliseconds(1), 3.2e13))) }
}
