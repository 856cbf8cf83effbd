import Testing

@testable import Larder

@Suite("XXH64 gives the published values")
struct XXH64Tests {
    /// The sanity buffer and values of the reference implementation (xxHash, `tests/sanity_test_vectors.h`).
    private static let buffer: [UInt8] = {
        let prime32: UInt64 = 2_654_435_761
        let prime64: UInt64 = 11_400_714_785_074_694_797
        var generator = prime32
        return (0..<256).map { _ in
            defer { generator &*= prime64 }
            return UInt8(truncatingIfNeeded: generator >> 56)
        }
    }()

    @Test(
        "for the sanity buffer",
        arguments: [
            (0, 0, 0xEF46_DB37_51D8_E999), (0, 2_654_435_761, 0xAC75_FDA2_929B_17EF),
            (1, 0, 0xE934_A84A_DB05_2768), (1, 2_654_435_761, 0x5014_6076_43A9_B4C3),
            (4, 0, 0x9136_A0DC_A574_57EE), (14, 0, 0x8282_DCC4_994E_35C8),
            (14, 2_654_435_761, 0xC3BD_6BF6_3DEB_6DF0), (222, 0, 0xB641_AE8C_B691_C174),
            (222, 2_654_435_761, 0x20CB_8AB7_AE10_C14A),
        ] as [(Int, UInt64, UInt64)])
    func sanity(length: Int, seed: UInt64, expected: UInt64) {
        #expect(Self.buffer.prefix(length).withUnsafeBytes { XXH64.hash($0, seed: seed) } == expected)
    }

    @Test(
        "for short texts",
        arguments: [
            ("a", 0xD24E_C4F1_A98C_6E5B), ("abc", 0x44BC_2CF5_AD77_0999),
            ("Nobody inspects the spammish repetition", 0xFBCE_A83C_8A37_8BF1),
        ] as [(String, UInt64)])
    func texts(text: String, expected: UInt64) {
        #expect(Array(text.utf8).withUnsafeBytes { XXH64.hash($0) } == expected)
    }

    @Test("at any memory alignment")
    func alignment() {
        for offset in 0..<8 {
            let shifted = [UInt8](repeating: 0, count: offset) + Self.buffer
            let hash = shifted.withUnsafeBytes {
                XXH64.hash(UnsafeRawBufferPointer(rebasing: $0[offset..<offset + 222]))
            }
            #expect(hash == 0xB641_AE8C_B691_C174)
        }
    }
}
