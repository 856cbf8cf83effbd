import LarderFiles
public import LarderFoundation

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
        try set(data, as: nil, forKey: key, ttl: ttl, metadata: metadata, tags: tags)
    }

    /// Stores the bytes of a value of a coding; nil: raw bytes.
    func set(
        _ bytes: some CacheBytes, as coding: Coding?, forKey key: String, ttl: TimeToLive, metadata: [String: String],
        tags: [String]
    ) throws(CacheError) {
        try withOpenStore { store throws(CacheError) in
            let key = try checked(key)
            let now = now
            guard let life = ttl.life(from: now, default: configuration.defaultTTL) else {
                _ = try store.remove(key, at: now)
                return
            }
            let request = SetRequest(
                key: key, life: life, attachments: try attachments(metadata, tags, coding), now: now)
            _ = try bytes.withBytes { bytes throws(CacheError) in try store.set(bytes, request) }
            store.cleaner.awaitIfBehind()
        }
    }
}

extension DiskCache {
    /// Returns a stored string; nil for a miss. O(size).
    ///
    /// A value that was stored as something else, and raw data that is not UTF-8, are misses; they are reported and
    /// kept.
    public func string(forKey key: String) -> String? {
        decoded(key, as: .string, "a UTF-8 string", String.init)
    }

    /// Stores a string as UTF-8. See `setData(_:forKey:ttl:metadata:tags:)`.
    public func setString(
        _ string: String, forKey key: String, ttl: TimeToLive = .default, metadata: [String: String] = [:],
        tags: [String] = []
    ) throws(CacheError) {
        try setBytes(string, forKey: key, ttl: ttl, metadata: metadata, tags: tags)
    }

    /// Returns stored bytes as a type of your choice; nil for a miss. O(size).
    ///
    ///     let frame = disk.bytes([UInt8].self, forKey: "frame")
    ///
    /// A value that was stored as something else is a miss, reported and kept; raw data is bytes, too.
    public func bytes<Bytes: CacheBytes>(_ type: Bytes.Type, forKey key: String) -> Bytes? {
        decoded(key, as: Bytes.coding, "a value of the type \(type)", Bytes.init)
    }

    /// Stores bytes as they are. See `setData(_:forKey:ttl:metadata:tags:)`.
    public func setBytes<Bytes: CacheBytes>(
        _ bytes: Bytes, forKey key: String, ttl: TimeToLive = .default, metadata: [String: String] = [:],
        tags: [String] = []
    ) throws(CacheError) {
        try set(bytes, as: Bytes.coding, forKey: key, ttl: ttl, metadata: metadata, tags: tags)
    }

    /// Returns a stored value in the default form of its type: bytes as they are, a string as UTF-8, everything else as
    /// JSON; nil for a miss. O(size).
    ///
    /// A value that was stored in another form, or that cannot be decoded as `type`, is a miss; it is reported and
    /// kept, because it may be of another type. Data can be read of every value.
    public func value<Value: Decodable>(_ type: Value.Type, forKey key: String) -> Value? {
        func decode<Bytes: CacheBytes>(_ type: Bytes.Type, _ data: Data) -> Value? { Bytes(data) as? Value }
        let bytes = Value.self as? any CacheBytes.Type
        return decoded(key, as: bytes.map { $0.coding } ?? .json, "a value of the type \(type)") { data in
            if let bytes { return decode(bytes, data) }
            return try JSONDecoder().decode(type, from: data)
        }
    }

    /// Stores a value in the default form of its type, as a ``Cache`` without a coder does: bytes as they are, a string
    /// as UTF-8, everything else as JSON. See `setData(_:forKey:ttl:metadata:tags:)`.
    ///
    /// - Throws: Also `.unencodable` when the value has no JSON form.
    public func setValue(
        _ value: some Encodable, forKey key: String, ttl: TimeToLive = .default, metadata: [String: String] = [:],
        tags: [String] = []
    ) throws(CacheError) {
        if type(of: value) is any CacheBytes.Type, let bytes = value as? any CacheBytes {
            return try setBytes(bytes, forKey: key, ttl: ttl, metadata: metadata, tags: tags)
        }
        let data: Data
        do {
            data = try JSONEncoder().encode(value)
        } catch {
            throw CacheError(code: .unencodable, message: "The value has no JSON form: \(error).")
        }
        try set(data, as: .json, forKey: key, ttl: ttl, metadata: metadata, tags: tags)
    }

    func decoded<Value>(
        _ key: String, as coding: Coding?, _ expected: @autoclosure () -> String, _ decode: (Data) throws -> Value?
    ) -> Value? {
        let reading = reading(self.key(key), at: now, expected()) {
            Coding.mayRead($0, as: coding)
        } decode: { data, _ in
            try decode(data)
        }
        if case .value(_, let value) = reading { return value }
        return nil
    }

    /// The result of a read.
    enum Reading<Value> {
        case value(IndexEntry, Value)
        /// The value is another type's.
        case undecodable(IndexEntry)
        /// There is no entry, or its file could not be read.
        case missed
    }

    /// Reads and decodes a value, and says why there is none. A value of a form that is not read, or that cannot be
    /// decoded, is kept: it may be another type's. It is reported where `mayReport` says so.
    func reading<Value>(
        _ key: Key, at now: Timestamp, orStale: Bool = false, _ expected: @autoclosure () -> String,
        reads: (Coding?) -> Bool, decode: (Data, Coding?) throws -> Value?,
        mayReport: (IndexEntry) -> Bool = { _ in true }
    ) -> Reading<Value> {
        guard let store = readableStore else { return .missed }
        let found = store.read(key, at: now, orStale: orStale) { directory, entry in
            guard reads(entry.coding) else { return .value((entry: entry, data: Data?.none)) }
            return directory.payload(of: entry).then { .value((entry: entry, data: $0)) }
        }
        guard let (entry, data) = found else { return .missed }
        var reason = ""
        if let data {
            do {
                if let value = try decode(data, entry.coding) { return .value(entry, value) }
            } catch {
                reason = ": \(error)"
            }
        }
        store.takeBackHit(key, asMiss: true)
        if mayReport(entry) { reportUndecodable(entry, key, expected(), isRead: data != nil, reason) }
        return .undecodable(entry)
    }

    /// `isRead`: false when the coding of the entry has been enough.
    func reportUndecodable(
        _ entry: IndexEntry, _ key: Key, _ expected: String, isRead: Bool = false, _ reason: String = ""
    ) {
        let stored = isRead ? nil : entry.coding.map { "\($0), " }
        let message = "The value stored for the key is \(stored ?? "")not \(expected)\(reason)."
        store.report(CacheError(code: .undecodable, message: message, path: directory.path), of: key)
    }
}

extension CacheBytes {
    /// `withCacheBytes` with a typed error.
    func withBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try withCacheBytes { bytes in
            Swift.Result { () throws(Failure) -> Result in try body(bytes) }
        }.get()
    }
}
