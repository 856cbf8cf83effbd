#if FoundationExtras || canImport(Darwin)
    import Foundation

    extension DiskCache {
        /// Returns a stored property list: dictionaries with string keys, arrays, strings, data, dates, numbers; nil
        /// for a miss. A value that is not a property list is a miss; it is reported and kept. O(size).
        ///
        /// Part of the trait `FoundationExtras`, which is on by default.
        public func propertyList(forKey key: String) -> Any? {
            decoded(key, as: .propertyList, "a property list") { PropertyList($0)?.value }
        }

        /// Stores a property list in the binary format. See `setData(_:forKey:ttl:metadata:tags:)`.
        ///
        /// Part of the trait `FoundationExtras`, which is on by default.
        ///
        /// - Throws: Also `.unencodable` when it is not a property list: it contains other types, or more than 128
        ///   nested lists.
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
            try set(data, as: .propertyList, forKey: key, ttl: ttl, metadata: metadata, tags: tags)
        }
    }

    extension PropertyList {
        /// Whether the lists in a value are nested no deeper than allowed.
        static func isShallow(_ value: Any, depth: Int = 0) -> Bool {
            guard depth < deepest else { return false }
            // Objects first, because bridging one to a Swift collection recurses internally.
            if let array = value as? NSArray { return array.allSatisfy { isShallow($0, depth: depth + 1) } }
            if let dictionary = value as? NSDictionary {
                return dictionary.allValues.allSatisfy { isShallow($0, depth: depth + 1) }
            }
            if let array = value as? [Any] { return array.allSatisfy { isShallow($0, depth: depth + 1) } }
            guard let dictionary = value as? [AnyHashable: Any] else { return true }
            return dictionary.values.allSatisfy { isShallow($0, depth: depth + 1) }
        }
    }
#endif
