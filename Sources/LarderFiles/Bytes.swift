extension [UInt8] {
    /// `withUnsafeBytes` with a typed error.
    @inlinable
    package func withBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try withUnsafeBufferPointer { buffer throws(Failure) in try body(UnsafeRawBufferPointer(buffer)) }
    }
}

extension UnsafeRawBufferPointer {
    /// A slice of these bytes, with indices from 0.
    @inlinable
    package func part(_ range: Range<Int>) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: self[range])
    }

    /// Returns whether the bytes at `position` are `text`.
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

/// Numbers as 16 lower-case hex digits, eight digits at a time in one register.
package enum Hex {
    package static let length = 16

    /// The digits of a number: the first eight and the last eight, each as a little-endian word.
    @inlinable
    package static func digits(_ number: UInt64) -> (first: UInt64, second: UInt64) {
        (digits(half: UInt32(truncatingIfNeeded: number >> 32)), digits(half: UInt32(truncatingIfNeeded: number)))
    }

    /// Returns the number that 16 lower-case hex digits spell; nil when the bytes are not such digits.
    @inlinable
    package static func number(_ bytes: UnsafeRawBufferPointer) -> UInt64? {
        guard bytes.count == length, let start = bytes.baseAddress else { return nil }
        let first = UInt64(littleEndian: start.loadUnaligned(as: UInt64.self))
        let second = UInt64(littleEndian: start.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
        let (high, low) = (half(first), half(second))
        // The bytes were digits if and only if printing the number reproduces them.
        guard digits(half: high) == first, digits(half: low) == second else { return nil }
        return UInt64(high) << 32 | UInt64(low)
    }

    @inlinable
    static func digits(half: UInt32) -> UInt64 {
        // Spreads the number: one byte for every four bits, the highest first.
        var bytes = UInt64(half)
        bytes = (bytes | bytes << 16) & 0x0000_FFFF_0000_FFFF
        bytes = (bytes | bytes << 8) & 0x00FF_00FF_00FF_00FF
        bytes = (bytes | bytes << 4) & 0x0F0F_0F0F_0F0F_0F0F
        // 1 in each byte of ten or more, which becomes a letter.
        let letters = ((bytes &+ 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101
        return (bytes &+ 0x3030_3030_3030_3030 &+ letters &* 0x27).byteSwapped
    }

    @inlinable
    static func half(_ digits: UInt64) -> UInt32 {
        let text = digits.byteSwapped
        let letters = (text >> 6) & 0x0101_0101_0101_0101
        var bytes = (text & 0x0F0F_0F0F_0F0F_0F0F) &+ letters &* 9
        bytes = (bytes | bytes >> 4) & 0x00FF_00FF_00FF_00FF
        bytes = (bytes | bytes >> 8) & 0x0000_FFFF_0000_FFFF
        return UInt32(truncatingIfNeeded: bytes | bytes >> 16)
    }
}
