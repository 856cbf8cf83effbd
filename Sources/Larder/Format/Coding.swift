/// The form in which a value was encoded, as its entry records it. An entry of raw bytes has none.
///
/// The bytes alone do not say: the JSON of a number is a valid string too. Other versions may know other names.
///
/// A name is that of a form, and what was done with its bytes, the last step at the end: `json@3+deflate` is JSON of
/// the third version of a type, compressed.
struct Coding: Sendable {
    let name: String

    init(_ name: String) {
        self.name = name
    }

    static let string = Coding("utf8")
    static let json = Coding("json")
    static let propertyList = Coding("plist")
    static let archive = Coding("archive")
    static let bytes = Coding("bytes")

    /// True unless an entry records another coding than that as which it is read. Nil reads anything.
    static func mayRead(_ stored: Coding?, as coding: Coding?) -> Bool {
        coding == nil || stored == nil || stored == coding
    }

    enum Step: String {
        case wrapped = "+wrapped"
        case deflate = "+deflate"
    }

    /// A form after a step more; nil: raw bytes.
    init(_ form: Coding?, with step: Step) {
        name = (form ?? .bytes).name + step.rawValue
    }

    /// The form before the last step, if that was this one.
    func removing(_ step: Step) -> Coding? {
        name.hasSuffix(step.rawValue) ? Coding(String(name.dropLast(step.rawValue.count))) : nil
    }

    /// A form with the version of the type; nil: raw bytes.
    init(_ form: Coding?, version: Int) {
        name = "\((form ?? .bytes).name)@\(version)"
    }

    /// The version of the type: 0 for a form without one and for raw bytes, nil for one that went through further
    /// steps.
    static func version(of stored: Coding?) -> Int? {
        guard let name = stored?.name else { return 0 }
        guard let mark = name.lastIndex(of: "@") else { return name.contains("+") ? nil : 0 }
        let text = name[mark...].dropFirst()
        return Int(text).flatMap { $0 > 0 && "\($0)" == text ? $0 : nil }
    }

    /// Whether only a coder of the same kind can make something of the bytes.
    var isVersionedOrCompressed: Bool { name.contains("@") || name.hasSuffix(Step.deflate.rawValue) }

    var withoutVersion: Coding { name.lastIndex(of: "@").map { Coding(String(name[..<$0])) } ?? self }
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
        case .bytes: "bytes"
        default: "of the coding \(name.debugDescription)"
        }
    }
}
