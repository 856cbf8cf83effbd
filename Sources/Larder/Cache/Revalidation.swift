public import Foundation
import LarderFiles

/// The answer of a fetch.
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

    /// There is a new value; it is stored.
    ///
    /// - Parameters:
    ///   - value: The value.
    ///   - metadata: Stored on disk beside the value, for revalidating it. None by default.
    ///   - ttl: How long the value is fresh. Zero or less: it is returned, and the key removed. The call's life by
    ///     default.
    ///   - mustRevalidate: Whether the value may never be returned once it has expired, whatever a policy allows. False
    ///     by default.
    /// - Returns: The answer.
    public static func modified(
        _ value: Value, metadata: [String: String] = [:], ttl: TimeToLive? = nil, mustRevalidate: Bool = false
    ) -> Revalidation {
        Revalidation(outcome: .modified(value), metadata: metadata, ttl: ttl, mustRevalidate: mustRevalidate)
    }

    /// The value in the cache is still valid: its life begins again, and its payload is not rewritten.
    public static var notModified: Revalidation { Revalidation(outcome: .notModified) }

    /// The value in the cache is still valid: its life begins again, and its payload is not rewritten.
    ///
    /// - Parameters:
    ///   - metadata: Replaces the metadata of the value; nil leaves it. A change rewrites the payload, so that the
    ///     metadata are safe even when journal and manifest are lost.
    ///   - ttl: How long the value is fresh from now on. Zero or less: it is returned, and the key removed. The call's
    ///     life by default.
    ///   - mustRevalidate: Whether the value may never be returned once it has expired. Unchanged by default; a change
    ///     rewrites the payload.
    /// - Returns: The answer. Without a value in the cache it is an error, `.notFound`.
    public static func notModified(
        metadata: [String: String]?, ttl: TimeToLive? = nil, mustRevalidate: Bool? = nil
    ) -> Revalidation {
        Revalidation(outcome: .notModified, metadata: metadata, ttl: ttl, mustRevalidate: mustRevalidate)
    }

    /// There is no value, and the cache remembers that.
    ///
    /// - Parameter ttl: For how long. Zero or less: not at all, and the key is removed. The call's life by default.
    /// - Returns: The answer.
    public static func absent(ttl: TimeToLive? = nil) -> Revalidation { Revalidation(outcome: .absent, ttl: ttl) }
}

/// A value in the cache, fresh or stale, that a fetch is given to revalidate.
public struct CachedValue<Value: Sendable>: Sendable {
    /// The value.
    public let value: Value
    /// The metadata that was stored beside it.
    public let metadata: [String: String]
    /// When it was stored.
    public let storedAt: Date
    /// When it expires or has expired; nil: never.
    public let expiresAt: Date?
}

extension Revalidation: CustomStringConvertible {
    /// The answer, and the terms that come with it.
    public var description: String {
        var text =
            switch outcome {
            case .modified(let value): "modified: \(Wording.value(value))"
            case .notModified: "not modified"
            case .absent: "absent"
            }
        if let ttl { text += ", ttl \(ttl)" }
        if let metadata, !metadata.isEmpty { text += ", \(Wording.metadata(metadata))" }
        if mustRevalidate == true { text += ", must revalidate" }
        return text
    }
}

extension CachedValue: CustomStringConvertible {
    /// The value, when it was stored, its expiry and its metadata.
    public var description: String {
        let text = "\(Wording.value(value)), stored \(Wording.date(storedAt)), \(Wording.expiry(expiresAt))"
        return metadata.isEmpty ? text : "\(text), \(Wording.metadata(metadata))"
    }
}
