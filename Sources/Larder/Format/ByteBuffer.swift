import LarderFiles

/// A growable byte buffer. An array checks uniqueness and length at each append; this checks only its capacity.
struct ByteBuffer: ~Copyable {
    private var start: UnsafeMutablePointer<UInt8>
    private var capacity: Int
    private(set) var count = 0

    init(reserving capacity: Int) {
        self.capacity = max(capacity, 64)
        start = .allocate(capacity: self.capacity)
    }

    deinit {
        start.deallocate()
    }

    /// The bytes. Valid until the next append, and as long as the buffer.
    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: start, count: count) }

    /// Calls `body` with the bytes from `first` on.
    func withBytes<Result, Failure: Error>(
        from first: Int = 0, _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        precondition(first >= 0 && first <= count, "out of range")
        return try body(UnsafeRawBufferPointer(start: start + first, count: count - first))
    }

    mutating func append(_ byte: UInt8) {
        room(for: 1)[0] = byte
        count += 1
    }

    @inline(__always)
    mutating func append(_ text: StaticString) {
        append(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    @inline(__always)
    mutating func append(_ bytes: UnsafeBufferPointer<UInt8>) {
        guard let first = bytes.baseAddress else { return }
        room(for: bytes.count).update(from: first, count: bytes.count)
        count += bytes.count
    }

    mutating func append(littleEndian value: UInt64) {
        UnsafeMutableRawPointer(room(for: 8)).storeBytes(of: value.littleEndian, as: UInt64.self)
        count += 8
    }

    mutating func append(decimal value: UInt64) {
        let (high, low) = value.quotientAndRemainder(dividingBy: 100_000_000)
        if high == 0 { return append(Self.digits(low), withoutZeros: true) }
        if high < 100_000_000 {
            append(Self.digits(high), withoutZeros: true)
        } else {
            append(decimal: high / 100_000_000)
            append(Self.digits(high % 100_000_000), withoutZeros: false)
        }
        append(Self.digits(low), withoutZeros: false)
    }

    private mutating func append(_ digits: UInt64, withoutZeros: Bool) {
        // Zero bits at the bottom are leading zeros; the last digit stays.
        let zeros = withoutZeros ? min(7, (digits & 0x0F0F_0F0F_0F0F_0F0F).trailingZeroBitCount / 8) : 0
        UnsafeMutableRawPointer(room(for: 8)).storeBytes(
            of: (digits >> UInt64(8 * zeros)).littleEndian, as: UInt64.self)
        count += 8 - zeros
    }

    /// Eight decimal digits, the first in the lowest byte: halves, quarters and eighths in one register, with
    /// multiplications for divisions.
    private static func digits(_ value: UInt64) -> UInt64 {
        let halves = value / 10_000 | (value % 10_000) << 32
        let hundreds = (halves &* 10_486) >> 20 & 0x0000_007F_0000_007F
        let quarters = hundreds | (halves &- hundreds &* 100) << 16
        let tens = (quarters &* 103) >> 10 & 0x000F_000F_000F_000F
        return (tens | (quarters &- tens &* 10) << 8) | 0x3030_3030_3030_3030
    }

    /// Appends 16 lower-case hex digits.
    mutating func append(hex value: UInt64) {
        let (first, second) = Hex.digits(value)
        append(littleEndian: first)
        append(littleEndian: second)
    }

    /// Overwrites the first bytes with those of a value.
    mutating func overwriteStart<Value: BitwiseCopyable>(_ value: Value) {
        precondition(count >= MemoryLayout<Value>.size, "out of range")
        UnsafeMutableRawPointer(start).storeBytes(of: value, as: Value.self)
    }

    mutating func removeAll() {
        count = 0
    }

    @inline(__always)
    private mutating func room(for more: Int) -> UnsafeMutablePointer<UInt8> {
        if capacity - count < more { grow(to: max(2 * capacity, count + more)) }
        return start + count
    }

    @inline(never)
    private mutating func grow(to wanted: Int) {
        let larger = UnsafeMutablePointer<UInt8>.allocate(capacity: wanted)
        larger.update(from: start, count: count)
        start.deallocate()
        start = larger
        capacity = wanted
    }
}
