public import Foundation
import LarderFiles

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
