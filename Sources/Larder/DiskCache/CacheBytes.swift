public import LarderFoundation

/// Bytes in one piece, which a cache stores as they are: `[UInt8]`, `ArraySlice<UInt8>`, `Data`, and strings as UTF-8.
///
/// A type of another library, such as SwiftNIO's `ByteBuffer`, needs a few lines:
///
///     extension ByteBuffer: @retroactive CacheBytes {
///         public init(cacheBytes: UnsafeRawBufferPointer) { self.init(bytes: cacheBytes) }
///         public func withCacheBytes<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
///             try withUnsafeReadableBytes(body)
///         }
///     }
///
/// Use it with ``DiskCache/setBytes(_:forKey:ttl:metadata:tags:)`` or ``Coder/bytes``.
public protocol CacheBytes: Sendable {
    /// Copies bytes that were stored; nil when they are no value of this type. O(size).
    init?(cacheBytes: UnsafeRawBufferPointer)

    /// Calls a function with the bytes, which are valid until it returns.
    func withCacheBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result
}

extension Array: CacheBytes where Element == UInt8 {
    public init(cacheBytes: UnsafeRawBufferPointer) { self.init(cacheBytes) }

    public func withCacheBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        try withUnsafeBytes(body)
    }
}

extension ArraySlice: CacheBytes where Element == UInt8 {
    public init(cacheBytes: UnsafeRawBufferPointer) { self.init(cacheBytes) }

    public func withCacheBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        try withUnsafeBytes(body)
    }
}

extension Data: CacheBytes {
    public init(cacheBytes: UnsafeRawBufferPointer) { self.init(cacheBytes) }

    public func withCacheBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        try withUnsafeBytes(body)
    }
}

extension String: CacheBytes {
    /// Nil when the bytes are not UTF-8.
    public init?(cacheBytes: UnsafeRawBufferPointer) { self.init(bytes: cacheBytes, encoding: .utf8) }

    public func withCacheBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        var text = self
        return try text.withUTF8 { try body(UnsafeRawBufferPointer($0)) }
    }
}

extension CacheBytes {
    /// The coding that entries of the type record. Nil for data: no release has recorded one, so it reads any.
    static var coding: Coding? {
        if Self.self == Data.self { return nil }
        return Self.self == String.self ? .string : .bytes
    }

    init?(_ data: Data) {
        if let value = data as? Self {
            self = value
        } else {
            guard let value = data.withUnsafeBytes({ Self(cacheBytes: $0) }) else { return nil }
            self = value
        }
    }

    /// A copy, except of data.
    var data: Data { self as? Data ?? withCacheBytes { Data($0) } }
}
