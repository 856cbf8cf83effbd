import LarderTesting
import Testing

@testable import Larder

@Suite("A growing byte buffer")
struct ByteBufferTests {
    @Test("all appended bytes are there, however often the buffer grows")
    func appends() {
        var generator = SeededGenerator(seed: 7)
        var buffer = ByteBuffer(reserving: 0)
        var expected: [UInt8] = []
        let edges: [UInt64] = [0, 9, 10, 99, 100, 101, 999_999, 1_000_000, .max]
        let random = (0..<2_000).map { UInt64.random(in: 0 ... .max, using: &generator) >> UInt64($0 % 64) }
        for number in edges + random {
            buffer.append(decimal: number)
            buffer.append(UInt8(ascii: " "))
            buffer.append("text ")
            buffer.append(littleEndian: number)
            buffer.append(hex: number)
            expected += Array("\(number) text ".utf8) + withUnsafeBytes(of: number.littleEndian) { Array($0) }
            let digits = String(number, radix: 16)
            expected += Array((String(repeating: "0", count: 16 - digits.count) + digits).utf8)
        }
        // The expectation does not compare the arrays, because it would print them.
        let isSame = buffer.withBytes { Array($0) } == expected
        #expect(isSame)
        #expect(buffer.count == expected.count)
        let isSameBehind = buffer.withBytes(from: 100) { Array($0) } == Array(expected[100...])
        #expect(isSameBehind)
        buffer.removeAll()
        #expect(buffer.count == 0 && buffer.withBytes { $0.isEmpty })
    }
}
