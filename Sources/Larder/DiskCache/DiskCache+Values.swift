public import Foundation
import LarderFiles

extension DiskCache {
    /// Returns the value of a key, verified against its checksum; nil for a miss. O(size).
    ///
    /// A value that cannot be read is a miss too; it is counted and reported as an event.
    public func data(forKey key: String) -> Data? {
        if isClosed { return nil }
        let (key, now) = (self.key(key), now)
        return session.unretainedStore.use { $0.read(key, at: now) }
    }

    /// Stores a value. O(size), regardless of the number of entries.
    ///
    /// - Parameters:
    ///   - data: The value; it may be empty.
    ///   - key: Any string of at most 64 KiB.
    ///   - ttl: How long the value is kept. Zero or less removes the key. Default: the configured life.
    ///   - metadata: Kept with the value and readable without it. Default: none.
    ///   - tags: Names by which it can be removed together with others; see ``removeAll(tagged:progress:)``. Default:
    ///     none.
    /// - Throws: `.tooLarge` for a key or a tag of more than 64 KiB, a record (key, metadata and tags) of more than 1
    ///   MiB, or a value of more than `sizeLimit` or 1 TiB; `.noSpace`, `.io`, `.closed`. The old value then remains.
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
        let request = SetRequest(key: key, life: life, attachments: try attachments(metadata, tags), now: now)
        _ = try data.withBytes { bytes throws(CacheError) in try store.set(bytes, request) }
    }
}

extension DiskCache {
    /// Returns a stored string; nil for a miss. Bytes that are not UTF-8 are a miss; they are reported and kept.
    /// O(size).
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
    /// Data that cannot be decoded as `type` is a miss; it is reported and kept, because it may be of another type.
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
        let message = "The data stored for the key is not \(what)."
        readableStore?.report(CacheError(code: .undecodable, message: message, path: directory.path), of: self.key(key))
        return nil
    }
}

extension DiskCache {
    /// Returns a stored property list: dictionaries with string keys, arrays, strings, data, dates, numbers; nil for a
    /// miss. Data that is not a property list is a miss; it is reported and kept. O(size).
    public func propertyList(forKey key: String) -> Any? {
        decoded(key, "a property list") { PropertyList($0)?.value }
    }

    /// Stores a property list in the binary format. See `setData(_:forKey:ttl:metadata:tags:)`.
    ///
    /// - Throws: Also `.unencodable` when it is not a property list: it contains other types, or more than 128 nested
    ///   lists.
    public func setPropertyList(
        _ propertyList: Any, forKey key: String, ttl: TimeToLive = .default, metadata: [String: String] = [:],
        tags: [String] = []
    ) throws(CacheError) {
        // Foundation's writer has no limits. Our reader has, and every stored value must be readable.
        guard PropertyList.isShallow(propertyList),
            let data = try? PropertyListSerialization.data(
                fromPropertyList: propertyList, format: .binary, options: 0),
            PropertyList(data)?.value != nil
        else { throw CacheError(code: .unencodable, message: "The value is not a property list.") }
        try setData(data, forKey: key, ttl: ttl, metadata: metadata, tags: tags)
    }

    /// Returns an object that was stored as a secure archive; nil for a miss. O(size).
    ///
    /// A collection may contain Foundation's own value types: strings, numbers, data, dates, URLs, UUIDs, collections.
    /// Data that is not an archive of a `type` is a miss; it is reported and kept. On Linux, Foundation's unarchiver
    /// can trap on a forged archive: read archives there only from directories that nobody else writes to.
    public func archivedObject<Object: NSObject & NSSecureCoding>(_ type: Object.Type, forKey key: String) -> Object? {
        decoded(key, "an archive of a \(type)") { try KeyedArchive.object(type, in: $0) }
    }

    /// Stores an object as a secure archive. See `setData(_:forKey:ttl:metadata:tags:)`.
    ///
    /// On Linux, an object that contains one without support for secure coding ends the process: Foundation does not
    /// throw.
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

extension Data {
    /// `withUnsafeBytes` with a typed error.
    func withBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try withUnsafeBytes { bytes in
            Swift.Result { () throws(Failure) -> Result in try body(bytes) }
        }.get()
    }
}
