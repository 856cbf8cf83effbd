public import Foundation

// Values that say themselves how they become bytes need no coder.

extension Cache where Value: Codable {
    /// Opens a cache of Codable values: strings are kept as UTF-8, data as it is, all else as JSON. See
    /// ``init(directory:coder:configuration:)``.
    public convenience init(directory: URL, configuration: Configuration = .init()) throws(CacheError) {
        try self.init(directory: directory, coder: .standard, configuration: configuration)
    }

    /// Opens a cache of Codable values: strings are kept as UTF-8, data as it is, all else as JSON. See
    /// ``init(name:coder:configuration:)``.
    public convenience init(name: String, configuration: Configuration = .init()) throws(CacheError) {
        try self.init(name: name, coder: .standard, configuration: configuration)
    }

    /// Creates a cache of Codable values: strings are kept as UTF-8, data as it is, all else as JSON. See
    /// ``init(disk:namespace:coder:configuration:)``.
    public convenience init(disk: DiskCache, namespace: String, configuration: Configuration = .init()) {
        self.init(disk: disk, namespace: namespace, coder: .standard, configuration: configuration)
    }
}

extension Coder where Value: Codable & SendableMetatype {
    /// The coder of values that come without one.
    fileprivate static var standard: Coder {
        Coder<String>.string as? Coder ?? Coder<Data>.data as? Coder ?? .json
    }
}
