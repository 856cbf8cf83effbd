public import Foundation
import LarderFiles

extension DiskCache {
    /// Returns the value of a key, verified against its checksum; nil for a miss. O(size).
    ///
    /// A value that cannot be read is a miss too, counted and reported as an event.
    public func data(forKey key: String) -> Data? {
        if isClosed { return nil }
        let (key, now) = (self.key(key), now)
        return session.unretainedStore.use { $0.read(key, at: now) }
    }

    /// Stores a value. O(size), whatever the number of entries.
    ///
    /// - Parameters:
    ///   - data: The value; it may be empty.
    ///   - key: Any string of at most 64 KiB.
    ///   - ttl: How long it is kept. Zero or less removes the key. The configured life by default.
    ///   - metadata: Kept beside the value and readable without it. None by default.
    ///   - tags: Names by which it can be removed with others; see ``removeAll(tagged:progress:)``. None by default.
    /// - Throws: `.tooLarge` for a key or a tag of more than 64 KiB, a record (key, metadata and tags) of more than 1 MiB, or a
    ///   value of more than `sizeLimit` or 1 TiB; `.noSpace`, `.io`, `.closed`. The old value is then still there.
    public func setData(
        _ data: Data, forKey key: String, ttl: TimeToLive = .default, metadata: [String: String] = [:],
        tags: [String] = []
    ) throws(CacheError) {
        let store = try openStore
        let key = try checked(key)
        let now = now
        guard let life = ttl.life(from: now, default: configuration.defaultTTL) else {
            _ = try store.remove(key, at: now)
            return
        }
        let attachments = try attachments(metadata, tags)
        try data.withBytes { bytes throws(CacheError) in
            try store.set(bytes, for: key, life: life, attachments: attachments, at: now)
        }
    }

}

extension Data {
    /// `withUnsafeBytes` that keeps the type of the error.
    func withBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try withUnsafeBytes { bytes in
            Swift.Result { () throws(Failure) -> Result in try body(bytes) }
        }.get()
    }
}

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

extension DiskCache {
    /// Returns a stored property list: dictionaries with string keys, arrays, strings, data, dates, numbers; nil for a miss.
    /// What is stored and is no property list is a miss, reported and kept. O(size).
    public func propertyList(forKey key: String) -> Any? {
        decoded(key, "a property list") { PropertyList($0)?.value }
    }

    /// Stores a property list in the binary format. See `setData(_:forKey:ttl:metadata:tags:)`.
    ///
    /// - Throws: Also `.unencodable` when it is none: other types in it, or more than 128 lists in lists.
    public func setPropertyList(
        _ propertyList: Any, forKey key: String, ttl: TimeToLive = .default, metadata: [String: String] = [:],
        tags: [String] = []
    ) throws(CacheError) {
        // Foundation's writer has no bounds; what was stored can be read again by ours, which has.
        guard PropertyList.isShallow(propertyList),
            let data = try? PropertyListSerialization.data(
                fromPropertyList: propertyList, format: .binary, options: 0),
            PropertyList(data)?.value != nil
        else { throw CacheError(code: .unencodable, message: "The value is no property list.") }
        try setData(data, forKey: key, ttl: ttl, metadata: metadata, tags: tags)
    }

    /// Returns an object that was stored as a secure archive; nil for a miss. O(size).
    ///
    /// A collection may hold what Foundation itself stores: strings, numbers, data, dates, URLs, UUIDs, collections. What is
    /// stored and is no archive of a `type` is a miss, reported and kept. On Linux Foundation's unarchiver can end the process
    /// over an archive that somebody has forged: there, read archives only from directories that nobody else writes to.
    public func archivedObject<Object: NSObject & NSSecureCoding>(_ type: Object.Type, forKey key: String) -> Object? {
        decoded(key, "an archive of a \(type)") { try KeyedArchive.object(type, in: $0) }
    }

    /// Stores an object as a secure archive. See `setData(_:forKey:ttl:metadata:tags:)`.
    ///
    /// On Linux an object that contains one that does not support secure coding ends the process: Foundation does not throw.
    ///
    /// - Throws: Also `.unencodable` when it cannot be archived.
    public func setArchivedObject(
        _ object: some NSObject & NSSecureCoding, forKey key: String, ttl: TimeToLive = .default,
        metadata: [String: String] = [:], tags: [String] = []
    ) throws(CacheError) {
        let data: Data
        do {
            data = try NSKeyedArchiver.archivedData(withRootObject: object, requiringSecureCoding: true)
        } catch {
            throw CacheError(code: .unencodable, message: "The object cannot be archived: \(error).")
        }
        try setData(data, forKey: key, ttl: ttl, metadata: metadata, tags: tags)
    }
}
