import LarderFiles
import LarderTesting
import Testing

@Suite("Numbers as hex digits")
struct HexTests {
    private static func read(_ text: String) -> UInt64? {
        Array(text.utf8).withBytes { Hex.number($0) }
    }

    @Test("the digits equal Swift's own, and are read back")
    func roundTrip() {
        var generator = SeededGenerator(seed: 1)
        let edges: [UInt64] = [0, 1, 9, 10, 15, 16, .max, .max / 2, 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210]
        for number in edges + (0..<5_000).map({ _ in UInt64.random(in: 0 ... .max, using: &generator) }) {
            let name = FileName.number(number).description
            let digits = String(number, radix: 16)
            #expect(name == String(repeating: "0", count: 16 - digits.count) + digits)
            #expect(Self.read(name) == number)
            #expect(FileName(name) == .number(number))
        }
    }

    @Test("any other byte in one of the places makes it no number")
    func others() {
        for place in 0..<16 {
            for byte in UInt8.min ... .max {
                var text = Array("0123456789abcdef".utf8)
                text[place] = byte
                let isDigit = Array("0123456789abcdef".utf8).contains(byte)
                #expect((text.withBytes { Hex.number($0) } != nil) == isDigit, "\(byte) at \(place)")
            }
        }
        for text in ["", "0", "123456789abcdef", "0123456789abcdef0", "0123456789ABCDEF", "0x23456789abcdef"] {
            #expect(Self.read(text) == nil)
        }
    }
}
