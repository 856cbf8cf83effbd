extension [UInt8] {
    /// `withUnsafeBytes` that keeps the type of the error.
    @inlinable
    package func withBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try withUnsafeBufferPointer { buffer throws(Failure) in try body(UnsafeRawBufferPointer(buffer)) }
    }
}

extension UnsafeRawBufferPointer {
    /// A part of these bytes.
    @inlinable
    package func part(_ range: Range<Int>) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: self[range])
    }

    /// Tells whether `text` stands at `position`.
    @inlinable
    package func has(_ text: StaticString, at position: Int) -> Bool {
        let length = text.utf8CodeUnitCount
        guard position >= 0, count - position >= length else { return false }
        for offset in 0..<length where self[position + offset] != text.utf8Start[offset] { return false }
        return true
    }

    /// No bytes.
    package static var none: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: nil, count: 0) }
}
