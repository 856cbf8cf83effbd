import Foundation
import LarderFiles

extension DiskCache {
    /// Returns a stored string; nil for a miss. Bytes that are not UTF-8 are a miss, reported and kept. O(size).
    public func string(forKey key: String) -> String? {
        decoded(key, "a UTF-8 string") { String(data: $0, encoding: .utf8) }
    }

    /// Stores a string as UTF-8. See `setData(_:forKey:ttl:metadata:tags:)`.
    public func setString(
        _ string: String, forKey key: String, ttl: TimeToLive = .default, metadata: [String: String] = [:],
        tags: [String] = []
    ) throws(CacheError) {
        try setData(Data(string.utf8), forKey: key, ttl: ttl, metadata: metadata, tags: tags)
    }

    /// Returns a value that was stored as JSON; nil for a miss. O(size).
    ///
    /// What does not decode as `type` is a miss, reported and kept: it may be another type's.
    public func value<Value: Decodable>(_ type: Value.Type, forKey key: String) -> Value? {
        decoded(key, "\(type)") { try JSONDecoder().decode(type, from: $0) }
    }

    /// Stores a value as JSON. See `setData(_:forKey:ttl:metadata:tags:)`.
    ///
    /// - Throws: Also `.unencodable` when the value has no JSON form.
    public func setValue(
        _ value: some Encodable, forKey key: String, ttl: TimeToLive = .default, metadata: [String: String] = [:],
        tags: [String] = []
    ) throws(CacheError) {
        let data: Data
        do {
            data = try JSONEncoder().encode(value)
        } catch {
            throw CacheError(code: .unencodable, message: "The value has no JSON form: \(error).")
        }
        try setData(data, forKey: key, ttl: ttl, metadata: metadata, tags: tags)
    }

    func decoded<Value>(_ key: String, _ what: String, _ decode: (Data) throws -> Value?) -> Value? {
        guard let data = data(forKey: key) else { return nil }
        if let value = try? decode(data) { return value }
        let message = "What is stored for the key is not \(what)."
        readableStore?.report(CacheError(code: .undecodable, message: message, path: directory.path), of: self.key(key))
        return nil
    }
}
