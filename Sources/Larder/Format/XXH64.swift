/// XXH64, the 64-bit xxHash: a fast checksum, not a cryptographic one.
///
/// Source: the specification at https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md.
package enum XXH64 {
    private static let prime1: UInt64 = 0x9E37_79B1_85EB_CA87
    private static let prime2: UInt64 = 0xC2B2_AE3D_27D4_EB4F
    private static let prime3: UInt64 = 0x1656_67B1_9E37_79F9
    private static let prime4: UInt64 = 0x85EB_CA77_C2B2_AE63
    private static let prime5: UInt64 = 0x27D4_EB2F_1656_67C5

    /// Returns the hash of `bytes`. O(n).
    package static func hash(_ bytes: UnsafeRawBufferPointer, seed: UInt64 = 0) -> UInt64 {
        if bytes.count < 32 { return finished(seed &+ prime5, bytes, length: bytes.count) }
        var lanes = Lanes(seed: seed)
        let rest = lanes.mix(bytes)
        return finished(lanes.merged, rest, length: bytes.count)
    }

    /// The hash of bytes that arrive in pieces, with seed 0. The length of every piece but the last is a multiple of
    /// 32.
    struct Stream {
        private var lanes = Lanes(seed: 0)
        private var length = 0

        /// Adds a piece that is not the last. O(its length).
        mutating func add(_ piece: UnsafeRawBufferPointer) {
            precondition(piece.count.isMultiple(of: 32), "the bytes in between would be lost")
            length += piece.count
            _ = lanes.mix(piece)
        }

        /// Returns the hash with the last piece, which may be empty. O(its length).
        consuming func finish(_ piece: UnsafeRawBufferPointer) -> UInt64 {
            length += piece.count
            if length < 32 { return XXH64.finished(prime5, piece, length: length) }
            let rest = lanes.mix(piece)
            return XXH64.finished(lanes.merged, rest, length: length)
        }
    }

    /// The accumulators, into which every 32 bytes are mixed.
    private struct Lanes {
        private var lane1: UInt64
        private var lane2: UInt64
        private var lane3: UInt64
        private var lane4: UInt64

        init(seed: UInt64) {
            lane1 = seed &+ prime1 &+ prime2
            lane2 = seed &+ prime2
            lane3 = seed
            lane4 = seed &- prime1
        }

        /// Mixes in all complete blocks of 32 bytes, and returns the rest.
        @inline(__always)
        mutating func mix(_ bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
            guard let start = bytes.baseAddress else { return bytes }
            let end = start + bytes.count
            var position = start
            while end - position >= 32 {
                lane1 = XXH64.round(lane1, word(position))
                lane2 = XXH64.round(lane2, word(position + 8))
                lane3 = XXH64.round(lane3, word(position + 16))
                lane4 = XXH64.round(lane4, word(position + 24))
                position += 32
            }
            return UnsafeRawBufferPointer(start: position, count: end - position)
        }

        var merged: UInt64 {
            let hash = rotated(lane1, 1) &+ rotated(lane2, 7) &+ rotated(lane3, 12) &+ rotated(lane4, 18)
            return XXH64.merged(XXH64.merged(XXH64.merged(XXH64.merged(hash, lane1), lane2), lane3), lane4)
        }
    }

    /// Mixes in the last bytes, fewer than 32.
    @inline(__always)
    private static func finished(_ mixed: UInt64, _ rest: UnsafeRawBufferPointer, length: Int) -> UInt64 {
        var hash = mixed &+ UInt64(length)
        guard let start = rest.baseAddress else { return avalanche(hash) }
        let end = start + rest.count
        var position = start
        while end - position >= 8 {
            hash = rotated(hash ^ round(0, word(position)), 27) &* prime1 &+ prime4
            position += 8
        }
        if end - position >= 4 {
            let half = UInt64(UInt32(littleEndian: position.loadUnaligned(as: UInt32.self)))
            hash = rotated(hash ^ (half &* prime1), 23) &* prime2 &+ prime3
            position += 4
        }
        while position < end {
            hash = rotated(hash ^ (UInt64(position.load(as: UInt8.self)) &* prime5), 11) &* prime1
            position += 1
        }
        return avalanche(hash)
    }

    @inline(__always)
    private static func word(_ position: UnsafeRawPointer) -> UInt64 {
        UInt64(littleEndian: position.loadUnaligned(as: UInt64.self))
    }

    @inline(__always)
    private static func rotated(_ value: UInt64, _ bits: UInt64) -> UInt64 {
        value &<< bits | value &>> (64 &- bits)
    }

    @inline(__always)
    private static func round(_ io: UInt64, _ word: UInt64) -> UInt64 {
        rotated(io &+ word &* prime2, 31) &* prime1
    }

    @inline(__always)
    private static func merged(_ hash: UInt64, _ io: UInt64) -> UInt64 {
        (hash ^ round(0, io)) &* prime1 &+ prime4
    }

    private static func avalanche(_ hash: UInt64) -> UInt64 {
        var hash = hash
        hash = (hash ^ hash &>> 33) &* prime2
        hash = (hash ^ hash &>> 29) &* prime3
        return hash ^ hash &>> 32
    }
}
