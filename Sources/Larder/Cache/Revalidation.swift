public import Foundation
import LarderFiles

/// What a fetch has found out.
///
///     return response.status == 304 ? .notModified : .modified(body, metadata: ["etag": response.etag])
public struct Revalidation<Value: Sendable>: Sendable {
    enum Outcome: Sendable {
        case modified(Value)
        case notModified
        case absent
    }

    let outcome: Outcome
    var metadata: [String: String]?
    var ttl: TimeToLive?
    var mustRevalidate: Bool?

    /// There is a value; it is stored.
    ///
    /// - Parameters:
    ///   - value: The value.
    ///   - metadata: Kept on disk beside it: what revalidating it will need. None by default.
    ///   - ttl: How long it is fresh. Zero or less: it is answered, and the key removed. The call's life by default.
    ///   - mustRevalidate: Whether it is never to be answered when it has expired, whatever a policy says. False by default.
    /// - Returns: The answer.
    public static func modified(
        _ value: Value, metadata: [String: String] = [:], ttl: TimeToLive? = nil, mustRevalidate: Bool = false
    ) -> Revalidation {
        Revalidation(outcome: .modified(value), metadata: metadata, ttl: ttl, mustRevalidate: mustRevalidate)
    }

    /// The value that the cache has is still right: its life begins again; the payload is not written again.
    public static var notModified: Revalidation { Revalidation(outcome: .notModified) }

    /// The value that the cache has is still right: its life begins again; the payload is not written again.
    ///
    /// - Parameters:
    ///   - metadata: Replaces that of the value; nil leaves it. It stands in journal and manifest alone: when both are lost,
    ///     the entry is found again with the metadata that its value was stored with. The same by default.
    ///   - ttl: How long it is fresh from now on. Zero or less: it is answered, and the key removed. The call's life by default.
    ///   - mustRevalidate: Whether it is never to be answered when it has expired. As it was by default; if it changes, the payload
    ///     is written again.
    /// - Returns: The answer. Without a value in the cache it is an error, `.notFound`.
    public static func notModified(
        metadata: [String: String]?, ttl: TimeToLive? = nil, mustRevalidate: Bool? = nil
    ) -> Revalidation {
        Revalidation(outcome: .notModified, metadata: metadata, ttl: ttl, mustRevalidate: mustRevalidate)
    }

    /// There is no value, and the cache is to remember that.
    ///
    /// - Parameter ttl: For how long. Zero or less: it is not, and the key is removed. The call's life by default.
    /// - Returns: The answer.
    public static func absent(ttl: TimeToLive? = nil) -> Revalidation { Revalidation(outcome: .absent, ttl: ttl) }
}

/// A value that the cache has, fresh or stale, as a fetch is given it.
public struct CachedValue<Value: Sendable>: Sendable {
    /// The value.
    public let value: Value
    /// What was stored beside it.
    public let metadata: [String: String]
    /// When it was stored.
    public let storedAt: Date
    /// When it expires, or has expired; nil: never.
    public let expiresAt: Date?
}
