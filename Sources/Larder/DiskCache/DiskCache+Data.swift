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
        let request = SetRequest(key: key, life: life, attachments: try attachments(metadata, tags), now: now)
        _ = try data.withBytes { bytes throws(CacheError) in
            try store.set(bytes, request)
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
