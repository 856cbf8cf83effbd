/// The name of one file inside a directory: never a path.
///
/// A number is printed as 16 lower-case hex digits into a buffer on the stack, so the hot path allocates nothing.
package enum FileName: Hashable, Sendable {
    case number(UInt64)
    case text(String)

    package static let numberLength = 16

    /// Reads a name from a directory: 16 lower-case hex digits are a number, all else is text.
    package init(_ text: String) {
        var copy = text
        let number = copy.withUTF8 { Self.number(in: UnsafeRawBufferPointer($0)) }
        self = number.map(FileName.number) ?? .text(text)
    }

    /// Returns the number that 16 lower-case hex digits spell.
    package static func number(in digits: UnsafeRawBufferPointer) -> UInt64? {
        guard digits.count == numberLength else { return nil }
        var number: UInt64 = 0
        for digit in digits {
            switch digit {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): number = number << 4 | UInt64(digit - UInt8(ascii: "0"))
            case UInt8(ascii: "a")...UInt8(ascii: "f"): number = number << 4 | UInt64(digit - UInt8(ascii: "a") + 10)
            default: return nil
            }
        }
        return number
    }

    /// Calls `body` with the name as a C string.
    package func withCString<Result>(_ body: (UnsafePointer<CChar>) -> Result) -> Result {
        switch self {
        case .text(let text):
            precondition(!text.utf8.contains(UInt8(ascii: "/")), "a path is no name")
            return text.withCString(body)
        case .number(let number):
            return withUnsafeTemporaryAllocation(of: CChar.self, capacity: Self.numberLength + 1) { buffer in
                for position in 0..<Self.numberLength {
                    let digit = UInt8(truncatingIfNeeded: number >> UInt64(4 * (Self.numberLength - 1 - position))) & 15
                    buffer[position] = CChar(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
                }
                buffer[Self.numberLength] = 0
                return body(buffer.baseAddress!)
            }
        }
    }
}

extension FileName: CustomStringConvertible {
    package var description: String {
        withCString { String(cString: $0) }
    }
}
