public import LarderFoundation

/// Turns values into bytes and bytes into values.
///
///     let users = try Cache(name: "users", coder: Coder<User>.propertyList)
///     let notes = try Cache(name: "notes", coder: Coder<Note>.json.wrapped(encode: seal, decode: open))
///
/// The closures run on the cache's threads with no lock held, several at a time. An error fails a write; it makes a
/// read a miss that is reported.
///
/// The coders for strings, bytes, JSON, property lists and archives record their form with each value, and read only
/// values of that form or of none. ``data`` and a coder made from closures record none, and read anything that has no
/// version and is not compressed.
public struct Coder<Value>: Sendable {
    let encode: @Sendable (Value) throws -> Encoded
    /// Whether values of a form may be read; nil: raw bytes.
    let reads: @Sendable (Coding?) -> Bool
    let decode: @Sendable (Data, Coding?) throws -> Value

    /// Creates a coder from a pair of closures.
    ///
    /// - Parameters:
    ///   - encode: Returns the bytes of a value.
    ///   - decode: Returns the value of bytes made by `encode`, in this version of the program or an older one.
    public init(
        encode: @escaping @Sendable (Value) throws -> Data, decode: @escaping @Sendable (Data) throws -> Value
    ) {
        self.init(nil, encode: encode, decode: decode)
    }

    /// A coder that records `coding`; nil: raw bytes, which only the closures can judge.
    init(
        _ coding: Coding?, encode: @escaping @Sendable (Value) throws -> Data,
        decode: @escaping @Sendable (Data) throws -> Value
    ) {
        self.init { value in
            Encoded(data: try encode(value), coding: coding)
        } reads: { stored in
            Coding.mayRead(stored, as: coding) && (coding != nil || stored?.isVersionedOrCompressed != true)
        } decode: { data, _ in
            try decode(data)
        }
    }

    init(
        encode: @escaping @Sendable (Value) throws -> Encoded, reads: @escaping @Sendable (Coding?) -> Bool,
        decode: @escaping @Sendable (Data, Coding?) throws -> Value
    ) {
        (self.encode, self.reads, self.decode) = (encode, reads, decode)
    }

    /// The bytes of a value, and what decodes them, for benchmarks.
    package func encoded(_ value: Value) throws -> (data: Data, decode: () throws -> Value) {
        let encoded = try encode(value)
        return (encoded.data, { [decode] in try decode(encoded.data, encoded.coding) })
    }

    /// Returns a coder whose bytes go through another pair of closures, for encryption for example.
    ///
    /// The new coder reads wrapped values whose form this one reads, and any that are not wrapped, so `decode` has to
    /// reject bytes that are not its own. It may also accept values that were stored before the wrapping.
    ///
    /// - Parameters:
    ///   - outer: Takes the bytes that this coder made and returns those to store.
    ///   - inner: Takes the stored bytes and returns those for this coder to decode.
    /// - Returns: The new coder.
    public func wrapped(
        encode outer: @escaping @Sendable (Data) throws -> Data, decode inner: @escaping @Sendable (Data) throws -> Data
    ) -> Coder {
        Coder { [encode] value in
            var encoded = try encode(value)
            encoded.data = try outer(encoded.data)
            encoded.coding = Coding(encoded.coding, with: .wrapped)
            return encoded
        } reads: { [reads] stored in
            stored?.removing(.wrapped).map(reads) ?? true
        } decode: { [decode] data, stored in
            try decode(inner(data), stored?.removing(.wrapped) ?? stored)
        }
    }

    /// Returns a coder whose values have a version, for types that change from one release of a program to the next.
    ///
    ///     let coder = Coder<User>.json.versioned(3, migrating: [
    ///         2: { data in User(name: try JSONDecoder().decode(String.self, from: data)) }
    ///     ])
    ///     let users = try Cache(name: "users", coder: coder)
    ///
    /// Version a coder before it is compressed or wrapped, so that migrations get the bytes that it made.
    ///
    /// Each value records the version. One of another version is migrated each time it is read from disk, until it is
    /// stored again. Where there is no migration, because the version is too old or the program has been set back to an
    /// earlier release, it is a miss, and stays for the release that can read it until it is replaced.
    ///
    /// - Parameters:
    ///   - version: 1 or more.
    ///   - migrations: For versions that can be read, how to make a value of the stored bytes, of whatever form they
    ///     are. Those that were stored without a version have version 0. An error is a miss. Default: none.
    /// - Returns: The new coder.
    public func versioned(
        _ version: Int, migrating migrations: [Int: @Sendable (Data) throws -> Value] = [:]
    ) -> Coder {
        precondition(version > 0, "a version is 1 or more")
        return Coder { [encode] value in
            var encoded = try encode(value)
            encoded.coding = Coding(encoded.coding, version: version)
            return encoded
        } reads: { [reads] stored in
            guard let found = Coding.version(of: stored) else { return false }
            return found == version ? reads(stored?.withoutVersion) : migrations[found] != nil
        } decode: { [decode] data, stored in
            let found = Coding.version(of: stored)
            if found == version { return try decode(data, stored?.withoutVersion) }
            guard let migrate = found.flatMap({ migrations[$0] }) else { throw CocoaError(.fileReadCorruptFile) }
            return try migrate(data)
        }
    }
}

/// The bytes of a value, and their form.
struct Encoded {
    var data: Data
    /// Nil: raw bytes.
    var coding: Coding?
}

extension Coder where Value: Codable & SendableMetatype {
    /// JSON, as Foundation's encoder and decoder write and read it with their default settings.
    public static var json: Coder { json(encoder: JSONEncoder(), decoder: JSONDecoder()) }

    /// JSON with settings of your own: dates as text, other names of keys.
    ///
    ///     let decoder = JSONDecoder()
    ///     decoder.dateDecodingStrategy = .iso8601
    ///
    /// - Parameters:
    ///   - encoder: Must not be changed any more.
    ///   - decoder: Must not be changed any more. Reads what `encoder` writes.
    /// - Returns: The coder.
    public static func json(encoder: JSONEncoder, decoder: JSONDecoder) -> Coder {
        Coder(.json) {
            try encoder.encode($0)
        } decode: {
            try decoder.decode(Value.self, from: $0)
        }
    }

    /// A binary property list.
    public static var propertyList: Coder {
        let encoder = PropertyListEncoder()
        encoder.outputFormat = .binary
        return propertyList(encoder: encoder, decoder: PropertyListDecoder())
    }

    /// A property list with settings of your own.
    ///
    /// - Parameters:
    ///   - encoder: Its `outputFormat` is XML unless you say otherwise. Must not be changed any more.
    ///   - decoder: Must not be changed any more.
    /// - Returns: The coder.
    public static func propertyList(encoder: PropertyListEncoder, decoder: PropertyListDecoder) -> Coder {
        Coder(.propertyList) {
            try encoder.encode($0)
        } decode: { data in
            // Foundation's reader crashes on some damaged lists; ours rejects them first.
            guard PropertyList(data)?.value != nil else { throw CocoaError(.propertyListReadCorrupt) }
            return try decoder.decode(Value.self, from: data)
        }
    }

    /// The coder of a cache that is opened without one: bytes as they are, strings as UTF-8, everything else as JSON.
    static var standard: Coder {
        func coder<Bytes: CacheBytes>(_ type: Bytes.Type) -> Coder { Coder<Bytes>.bytes as! Coder }
        return (Value.self as? any CacheBytes.Type).map { coder($0) } ?? .json
    }
}

extension Coder where Value: CacheBytes {
    /// The bytes themselves; of a string, its UTF-8.
    public static var bytes: Coder {
        Coder(Value.coding) {
            $0.data
        } decode: { data in
            guard let value = Value(data) else { throw CocoaError(.fileReadCorruptFile) }
            return value
        }
    }
}

extension Coder where Value == Data {
    /// The bytes themselves, of whatever form.
    public static var data: Coder { bytes }
}

extension Coder where Value == String {
    /// UTF-8.
    public static var string: Coder { bytes }
}
