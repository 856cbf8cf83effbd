public import LarderFoundation

// What had another name in 0.1.0.

extension CacheEntry {
    @available(*, deprecated, renamed: "payloadSize")
    public var size: Int { payloadSize }
}

extension DiskCache {
    @available(*, deprecated, renamed: "payloadSize")
    public var size: Int { payloadSize }

    /// Removes every entry of the directory, whatever the namespace of this handle.
    ///
    /// Without `renamed:`: on the handle of a namespace, `removeAll()` would leave the others.
    @available(*, deprecated, message: "removeAll() does this, on the handle that opened the directory.")
    public func removeAllNamespaces(
        progress: (@Sendable (_ removed: Int, _ total: Int) -> Void)? = nil
    ) throws(CacheError) {
        try openStore.removeAll(of: .everything, progress: progress)
    }
}

// Names that other caches have for the same: the compiler names the right one.

extension DiskCache {
    @available(*, unavailable, renamed: "init(name:)")
    public convenience init(_ name: String) throws(CacheError) { fatalError("unavailable") }

    @available(*, unavailable, renamed: "value(_:forKey:)")
    public func object(forKey key: String) -> Any? { fatalError("unavailable") }

    @available(*, unavailable, renamed: "data(forKey:)")
    public func get(_ key: String) -> Data? { fatalError("unavailable") }

    @available(*, unavailable, renamed: "setValue(_:forKey:)")
    public func setObject(_ value: some Encodable, forKey key: String) throws { fatalError("unavailable") }

    @available(*, unavailable, renamed: "setData(_:forKey:)")
    public func set(_ data: Data, forKey key: String) throws { fatalError("unavailable") }

    @available(*, unavailable, renamed: "removeValue(forKey:)")
    public func removeObject(forKey key: String) throws { fatalError("unavailable") }

    @available(*, unavailable, renamed: "removeAll()")
    public func removeAllObjects() throws { fatalError("unavailable") }

    @available(*, unavailable, renamed: "removeAll()")
    public func clear() throws { fatalError("unavailable") }

    @available(*, unavailable, renamed: "keys()")
    public var allKeys: [String] { fatalError("unavailable") }

    @available(*, unavailable, renamed: "hasValue(forKey:)")
    public func contains(_ key: String) -> Bool { fatalError("unavailable") }
}
