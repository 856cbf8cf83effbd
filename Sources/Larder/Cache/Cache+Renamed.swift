extension Cache {
    @available(*, deprecated, renamed: "payloadSize")
    public var size: Int { payloadSize }
}

// Names that other caches have for the same: the compiler names the right one.

extension Cache {
    @available(*, unavailable, renamed: "init(name:)")
    public convenience init(_ name: String) throws(CacheError) { fatalError("unavailable") }

    @available(*, unavailable, renamed: "value(forKey:)")
    public func object(forKey key: String) async -> Value? { fatalError("unavailable") }

    @available(*, unavailable, renamed: "value(forKey:)")
    public func get(_ key: String) async -> Value? { fatalError("unavailable") }

    @available(*, unavailable, renamed: "value(forKey:fetch:)")
    public func getOrSet(_ key: String, _ fetch: @escaping @Sendable () async throws -> Value) async throws -> Value {
        fatalError("unavailable")
    }

    @available(*, unavailable, renamed: "setValue(_:forKey:)")
    public func setObject(_ value: Value, forKey key: String) async throws { fatalError("unavailable") }

    @available(*, unavailable, renamed: "setValue(_:forKey:)")
    public func set(_ value: Value, forKey key: String) async throws { fatalError("unavailable") }

    @available(*, unavailable, renamed: "setValue(_:forKey:)")
    public func set(_ key: String, _ value: Value) async throws { fatalError("unavailable") }

    @available(*, unavailable, renamed: "removeValue(forKey:)")
    public func removeObject(forKey key: String) async throws { fatalError("unavailable") }

    @available(*, unavailable, renamed: "removeValue(forKey:)")
    public func remove(_ key: String) async throws { fatalError("unavailable") }

    @available(*, unavailable, renamed: "removeAll()")
    public func removeAllObjects() async throws { fatalError("unavailable") }

    @available(*, unavailable, renamed: "removeAll()")
    public func clear() async throws { fatalError("unavailable") }

    @available(*, unavailable, renamed: "keys()")
    public var allKeys: [String] { fatalError("unavailable") }

    @available(*, unavailable, renamed: "hasValue(forKey:)")
    public func contains(_ key: String) async -> Bool { fatalError("unavailable") }

    @available(*, unavailable, message: "Reading and storing are async: use value(forKey:) and setValue(_:forKey:).")
    public subscript(key: String) -> Value? {
        get { fatalError("unavailable") }
        set { fatalError("unavailable") }
    }

    @available(*, unavailable, renamed: "prefetch(_:fetch:)")
    public func prefetch(
        forKeys keys: some Sequence<String>, fetch: @escaping @Sendable (_ key: String) async throws -> Value
    ) -> Task<Void, Never> { fatalError("unavailable") }
}
