import Foundation

/// A property list, read by readers that hostile bytes cannot crash.
///
/// Foundation's own cannot be trusted with bytes that somebody else wrote: on Linux `PropertyListSerialization`,
/// `PropertyListDecoder` and `NSKeyedUnarchiver` each end the process over some damaged lists (swift-corelibs-foundation 6.2,
/// found by flipping bytes of valid ones). Writing stays theirs.
enum PropertyList: Sendable {
    case dictionary([Pair])
    case array([PropertyList])
    case string(String)
    case data(Data)
    case date(Date)
    case integer(Int)
    /// What does not fit into an `Int`.
    case large(UInt64)
    case real(Double)
    case boolean(Bool)
    /// A reference inside of a keyed archive.
    case reference(Int)

    struct Pair: Sendable {
        let key: String
        let value: PropertyList
    }

    /// Lists in lists; more is hostile.
    static let deepest = 128

    /// True when lists in lists are no deeper in a value than may be.
    static func isShallow(_ value: Any, depth: Int = 0) -> Bool {
        guard depth < deepest else { return false }
        // First as what it is: bridging goes into the depth by itself.
        if let array = value as? NSArray { return array.allSatisfy { isShallow($0, depth: depth + 1) } }
        if let dictionary = value as? NSDictionary {
            return dictionary.allValues.allSatisfy { isShallow($0, depth: depth + 1) }
        }
        if let array = value as? [Any] { return array.allSatisfy { isShallow($0, depth: depth + 1) } }
        guard let dictionary = value as? [AnyHashable: Any] else { return true }
        return dictionary.values.allSatisfy { isShallow($0, depth: depth + 1) }
    }

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

    /// The list in the types of Swift and Foundation; nil when it holds a reference.
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
