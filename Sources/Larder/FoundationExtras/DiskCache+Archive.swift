#if FoundationExtras || canImport(Darwin)
    public import Foundation

    extension DiskCache {
        /// Returns an object that was stored as a secure archive; nil for a miss. O(size).
        ///
        /// Part of the trait `FoundationExtras`, which is on by default.
        ///
        /// A collection may contain Foundation's own value types: strings, numbers, data, dates, URLs, UUIDs,
        /// collections. A value that is not an archive of a `type` is a miss; it is reported and kept. On Linux,
        /// Foundation's unarchiver can trap on a forged archive: read archives there only from directories that nobody
        /// else writes to.
        public func archivedObject<Object: NSObject & NSSecureCoding>(_ type: Object.Type, forKey key: String)
            -> Object?
        {
            decoded(key, as: .archive, "an archive of a \(type)") { try KeyedArchive.object(type, in: $0) }
        }

        /// Stores an object as a secure archive. See `setData(_:forKey:ttl:metadata:tags:)`.
        ///
        /// Part of the trait `FoundationExtras`, which is on by default.
        ///
        /// On Linux, an object that contains one without support for secure coding ends the process: Foundation does
        /// not throw.
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
            try set(data, as: .archive, forKey: key, ttl: ttl, metadata: metadata, tags: tags)
        }
    }

    extension Coder where Value: NSObject & NSSecureCoding {
        /// A secure archive; see ``DiskCache/archivedObject(_:forKey:)``.
        ///
        /// Part of the trait `FoundationExtras`, which is on by default.
        public static var archive: Coder {
            Coder(.archive) {
                try NSKeyedArchiver.archivedData(withRootObject: $0, requiringSecureCoding: true)
            } decode: { data in
                guard let object = try KeyedArchive.object(Value.self, in: data) else {
                    throw CocoaError(.coderReadCorrupt)
                }
                return object
            }
        }
    }
#endif
