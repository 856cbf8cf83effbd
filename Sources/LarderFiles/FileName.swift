/// The name of a file inside a directory, never a path.
///
/// A number is printed as 16 lower-case hex digits into a stack buffer, so the hot path allocates nothing.
package enum FileName: Hashable, Sendable {
    case number(UInt64)
    case text(String)

    /// Parses a name found in a directory: 16 lower-case hex digits are a number, everything else is text.
    package init(_ text: String) {
        var copy = text
        let number = copy.withUTF8 { Hex.number(UnsafeRawBufferPointer($0)) }
        self = number.map(FileName.number) ?? .text(text)
    }

    /// Calls `body` with the name as a C string.
    package func withCString<Result>(_ body: (UnsafePointer<CChar>) -> Result) -> Result {
        switch self {
        case .text(let text):
            precondition(!text.utf8.contains(UInt8(ascii: "/")), "a file name must not contain a slash")
            return text.withCString(body)
        case .number(let number):
            let (first, second) = Hex.digits(number)
            return withUnsafeTemporaryAllocation(byteCount: Hex.length + 1, alignment: 8) { buffer in
                buffer.storeBytes(of: first.littleEndian, as: UInt64.self)
                buffer.storeBytes(of: second.littleEndian, toByteOffset: 8, as: UInt64.self)
                buffer[Hex.length] = 0
                return body(buffer.baseAddress!.assumingMemoryBound(to: CChar.self))
            }
        }
    }
}

extension FileName: CustomStringConvertible {
    package var description: String {
        withCString { String(cString: $0) }
    }
}
