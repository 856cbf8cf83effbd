// Names that other caches have for the same: the compiler names the right one.

extension MemoryCache {
    @available(*, unavailable, renamed: "value(forKey:)")
    public func object(forKey key: Key) -> Value? { fatalError("unavailable") }

    @available(*, unavailable, renamed: "value(forKey:)")
    public func get(_ key: Key) -> Value? { fatalError("unavailable") }

    @available(*, unavailable, renamed: "setValue(_:forKey:)")
    public func setObject(_ value: Value, forKey key: Key) { fatalError("unavailable") }

    @available(*, unavailable, renamed: "setValue(_:forKey:cost:)")
    public func setObject(_ value: Value, forKey key: Key, cost: Int) { fatalError("unavailable") }

    @available(*, unavailable, renamed: "setValue(_:forKey:)")
    public func set(_ value: Value, forKey key: Key) { fatalError("unavailable") }

    @available(*, unavailable, renamed: "removeValue(forKey:)")
    public func removeObject(forKey key: Key) { fatalError("unavailable") }

    @available(*, unavailable, renamed: "removeAll()")
    public func removeAllObjects() { fatalError("unavailable") }

    @available(*, unavailable, renamed: "removeAll()")
    public func clear() { fatalError("unavailable") }

    @available(*, unavailable, renamed: "keys()")
    public var allKeys: [Key] { fatalError("unavailable") }

    @available(*, unavailable, renamed: "costLimit")
    public var totalCostLimit: Int? { fatalError("unavailable") }
}
