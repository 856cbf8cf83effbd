/// The form in which a value was encoded, as its entry records it. An entry of raw bytes has none.
///
/// The bytes alone do not say: the JSON of a number is a valid string too. Other versions may know other names.
struct Coding: Sendable {
    let name: String

    init(_ name: String) {
        self.name = name
    }

    static let string = Coding("utf8")
    static let json = Coding("json")
    static let propertyList = Coding("plist")
    static let archive = Coding("archive")
}

/// Compares the bytes of the names: entries share attachments only if these are identical.
extension Coding: Hashable {
    static func == (left: Coding, right: Coding) -> Bool {
        left.name.hasSameBytes(as: right.name)
    }

    func hash(into hasher: inout Hasher) {
        var name = name
        name.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}

extension Coding: CustomStringConvertible {
    var description: String {
        switch self {
        case .string: "a UTF-8 string"
        case .json: "JSON"
        case .propertyList: "a property list"
        case .archive: "an archive"
        default: "of the coding \(name.debugDescription)"
        }
    }
}
