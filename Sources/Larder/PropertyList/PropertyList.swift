import LarderFoundation

/// A property list, read by readers that hostile bytes cannot crash.
///
/// Foundation's readers are not safe for untrusted bytes: on Linux `PropertyListSerialization`, `PropertyListDecoder`
/// and `NSKeyedUnarchiver` all trap on some damaged lists (swift-corelibs-foundation 6.2, found by flipping bytes of
/// valid lists). Foundation still does the writing.
enum PropertyList: Sendable {
    case dictionary([Pair])
    case array([PropertyList])
    case string(String)
    case data(Data)
    case date(Date)
    case integer(Int)
    /// An integer that does not fit into an `Int`.
    case large(UInt64)
    case real(Double)
    case boolean(Bool)
    /// A reference inside a keyed archive.
    case reference(Int)

    struct Pair: Sendable {
        let key: String
        let value: PropertyList
    }

    /// The maximum nesting of lists; only a hostile list is deeper.
    static let deepest = 128

    /// The value of a dictionary's key.
    subscript(key: String) -> PropertyList? {
        guard case .dictionary(let pairs) = self else { return nil }
        return pairs.first { $0.key == key }?.value
    }

    var string: String? {
        if case .string(let string) = self { string } else { nil }
    }

    var array: [PropertyList]? {
        if case .array(let array) = self { array } else { nil }
    }

    /// The list as Swift and Foundation types; nil when it contains a reference.
    var value: Any? {
        switch self {
        case .string(let string): return string
        case .data(let data): return data
        case .date(let date): return date
        case .integer(let integer): return integer
        case .large(let integer): return integer
        case .real(let real): return real
        case .boolean(let boolean): return boolean
        case .reference: return nil
        case .array(let elements):
            let values = elements.compactMap(\.value)
            return values.count == elements.count ? values : nil
        case .dictionary(let pairs):
            var values: [String: Any] = [:]
            for pair in pairs {
                guard let value = pair.value.value else { return nil }
                values[pair.key] = value
            }
            return values
        }
    }
}
