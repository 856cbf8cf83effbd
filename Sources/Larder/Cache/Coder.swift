public import Foundation

/// Turns values into bytes and bytes into values.
///
///     let users = try Cache(name: "users", coder: Coder<User>.propertyList)
///     let notes = try Cache(name: "notes", coder: Coder<Note>.json.wrapped(encode: seal, decode: open))
///
/// Both closures run on the cache's threads with no lock held, several at a time. An error fails a write; it makes a
/// read a miss that is reported.
public struct Coder<Value>: Sendable {
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
        self.encode = encode
        self.decode = decode
    }

    /// Returns a coder whose bytes go through another pair of closures, for encryption or compression.
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
        Coder {
            try JSONEncoder().encode($0)
        } decode: {
            try JSONDecoder().decode(Value.self, from: $0)
        }
    }

    /// A binary property list.
    public static var propertyList: Coder {
        Coder { value in
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
        Coder {
            Data($0.utf8)
        } decode: { data in
            guard let text = String(data: data, encoding: .utf8) else {
                throw CocoaError(.fileReadInapplicableStringEncoding)
            }
            return text
        }
    }
}

extension Coder where Value: NSObject & NSSecureCoding {
    /// A secure archive; see ``DiskCache/archivedObject(_:forKey:)``.
    public static var archive: Coder {
        Coder {
            try NSKeyedArchiver.archivedData(withRootObject: $0, requiringSecureCoding: true)
        } decode: { data in
            guard let object = try KeyedArchive.object(Value.self, in: data) else {
                throw CocoaError(.coderReadCorrupt)
            }
            return object
        }
    }
}
