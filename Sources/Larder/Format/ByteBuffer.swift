import LarderFiles

/// Bytes that grow at their end. An array asks at each append whether it is shared and how long it is; this asks for the room alone.
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
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { digits in
            var (rest, first) = (value, 20)
            // Two at a time: dividing is what takes long.
            while rest >= 10 {
                first &-= 2
                let two = UInt8(truncatingIfNeeded: rest % 100)
                digits[first] = UInt8(ascii: "0") &+ two / 10
                digits[first &+ 1] = UInt8(ascii: "0") &+ two % 10
                rest /= 100
            }
            if rest > 0 || first == 20 {
                first &-= 1
                digits[first] = UInt8(ascii: "0") &+ UInt8(truncatingIfNeeded: rest)
            }
            append(UnsafeBufferPointer(rebasing: digits[first...]))
        }
    }

    /// Appends 16 lower-case hex digits.
    mutating func append(hex value: UInt64) {
        let (first, second) = Hex.digits(value)
        append(littleEndian: first)
        append(littleEndian: second)
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
