public import Foundation

/// How values become bytes and bytes become values.
///
///     let users = try Cache(name: "users", coder: Coder<User>.propertyList)
///     let notes = try Cache(name: "notes", coder: Coder<Note>.json.wrapped(encode: setShutdownMarker, decode: open))
///
/// Both closures run on the cache's threads with no lock held, several at a time. One that throws fails the write, and makes a
/// read a miss that is reported.
public struct Coder<Value>: Sendable {
    let encode: @Sendable (Value) throws -> Data
    let decode: @Sendable (Data) throws -> Value

    /// Creates a coder from a pair of closures.
    ///
    /// - Parameters:
    ///   - encode: Returns the bytes of a value.
    ///   - decode: Returns the value of bytes that `encode` has made, of this version or an older one.
    public init(
        encode: @escaping @Sendable (Value) throws -> Data, decode: @escaping @Sendable (Data) throws -> Value
    ) {
        self.encode = encode
        self.decode = decode
    }

    /// Returns a coder whose bytes go through another pair of closures: encryption, compression.
    ///
    /// - Parameters:
    ///   - outer: Is given the bytes that this coder has made; what it returns is stored.
    ///   - inner: Is given what was stored, and returns the bytes for this coder.
    /// - Returns: The other coder.
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
    /// JSON, as Foundation's encoder and decoder write and read it by default.
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
            // Foundation's reader has no bounds; what it is given has been read by ours, which has.
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
