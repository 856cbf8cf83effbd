public import LarderFoundation

/// Turns values into bytes and bytes into values.
///
///     let users = try Cache(name: "users", coder: Coder<User>.propertyList)
///     let notes = try Cache(name: "notes", coder: Coder<Note>.json.wrapped(encode: seal, decode: open))
///
/// Both closures run on the cache's threads with no lock held, several at a time. An error fails a write; it makes a
/// read a miss that is reported.
///
/// The coders for strings, JSON, property lists and archives record their form with each value, and read only values of
/// that form or of none. ``data`` and a coder made from closures record none and read anything.
public struct Coder<Value>: Sendable {
    /// The form of the bytes; nil: raw bytes, which only the closures can judge.
    let coding: Coding?
    let encode: @Sendable (Value) throws -> Data
    let decode: @Sendable (Data) throws -> Value

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

    init(
        _ coding: Coding?, encode: @escaping @Sendable (Value) throws -> Data,
        decode: @escaping @Sendable (Data) throws -> Value
    ) {
        self.coding = coding
        self.encode = encode
        self.decode = decode
    }

    /// Returns a coder whose bytes go through another pair of closures, for encryption or compression.
    ///
    /// The new coder records no form with its values and reads anything, so `decode` has to reject bytes that are not
    /// its own. It may also accept values that were stored before the wrapping.
    ///
    /// - Parameters:
    ///   - outer: Takes the bytes that this coder made and returns those to store.
    ///   - inner: Takes the stored bytes and returns those for this coder to decode.
    /// - Returns: The new coder.
    public func wrapped(
        encode outer: @escaping @Sendable (Data) throws -> Data, decode inner: @escaping @Sendable (Data) throws -> Data
    ) -> Coder {
        let (encode, decode) = (encode, decode)
        return Coder {
            try outer(encode($0))
        } decode: {
            try decode(inner($0))
        }
    }
}

extension Coder where Value: Codable & SendableMetatype {
    /// JSON, as Foundation's encoder and decoder write and read it with their default settings.
    public static var json: Coder {
        Coder(.json) {
            try JSONEncoder().encode($0)
        } decode: {
            try JSONDecoder().decode(Value.self, from: $0)
        }
    }

    /// A binary property list.
    public static var propertyList: Coder {
        Coder(.propertyList) { value in
            let encoder = PropertyListEncoder()
            encoder.outputFormat = .binary
            return try encoder.encode(value)
        } decode: { data in
            // Foundation's reader crashes on some damaged lists; ours rejects them first.
            guard PropertyList(data)?.value != nil else { throw CocoaError(.propertyListReadCorrupt) }
            return try PropertyListDecoder().decode(Value.self, from: data)
        }
    }
}

extension Coder where Value == Data {
    /// The bytes themselves.
    public static var data: Coder {
        Coder {
            $0
        } decode: {
            $0
        }
    }
}

extension Coder where Value == String {
    /// UTF-8.
    public static var string: Coder {
        Coder(.string) {
            Data($0.utf8)
        } decode: {
            try DefaultCoding.string($0)
        }
    }
}

extension Coder where Value: Codable & SendableMetatype {
    /// The coder of a cache that is opened without one.
    static var standard: Coder {
        Coder(DefaultCoding.coding(of: Value.self)) {
            try DefaultCoding.encode($0)
        } decode: {
            try DefaultCoding.decode(Value.self, from: $0)
        }
    }
}

/// The form of each type's values where no coder says otherwise: strings as UTF-8, data as it is, everything else as
/// JSON.
enum DefaultCoding {
    static func coding(of type: Any.Type) -> Coding? {
        if type == Data.self { return nil }
        return type == String.self ? .string : .json
    }

    static func encode<Value: Encodable>(_ value: Value) throws -> Data {
        // The type is compared too: a cast alone would also succeed for an optional string.
        if Value.self == String.self, let text = value as? String { return Data(text.utf8) }
        if Value.self == Data.self, let data = value as? Data { return data }
        return try JSONEncoder().encode(value)
    }

    static func decode<Value: Decodable>(_ type: Value.Type, from data: Data) throws -> Value {
        if type == String.self, let text = try string(data) as? Value { return text }
        if type == Data.self, let data = data as? Value { return data }
        return try JSONDecoder().decode(type, from: data)
    }

    static func string(_ data: Data) throws -> String {
        guard let text = String(data: data, encoding: .utf8) else {
            throw CocoaError(.fileReadInapplicableStringEncoding)
        }
        return text
    }
}
