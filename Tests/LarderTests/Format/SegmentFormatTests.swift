import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("The format of a segment")
struct SegmentFormatTests {
    private static func hex(_ bytes: some Sequence<UInt8>) -> String {
        bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }

    /// These bytes are on users' disks: they never change.
    @Test("version 1 has exactly these bytes")
    func golden() {
        let headers = SegmentFormat.headers(of: 0x1234, salt: 0x0123_4567_89AB_CDEF, boot: 0x77)
        #expect(headers.count == SegmentFormat.start)
        #expect(
            Self.hex(headers.prefix(64))
                == "6c617264657220736567" + "6d742030310a" + "3412000000000000" + "efcdab8967452301" + Self.headerCheck
                + "8000000000000000" + Self.settledCheck + "0000000000000000")
        #expect(headers.prefix(40).elementsEqual(headers.suffix(64).prefix(40)))
        #expect(Self.hex(headers.suffix(24)) == "7700000000000000" + "0000000000000000" + "0000000000000000")
        Array("value".utf8).withBytes { payload in
            guard
                let new = NewEntry(
                    RecordTests.entry, number: 17, payload,
                    { span in
                        #expect(span == 224)
                        return Place(segment: 0x1234, offset: 128).map { ($0, salt: 0x0123_4567_89AB_CDEF) }
                    })
            else {
                Issue.record("no entry")
                return
            }
            check(new)
        }
    }

    private func check(_ new: borrowing NewEntry) {
        let line = String(decoding: new.line, as: UTF8.self)
        #expect(line.hasPrefix("\n{\"k\":\"a/b\",\"n\":17,") && line.contains(#","w":"0000000246800004","c":""#))
        let bytes = Array(new.bytesInSegment)
        #expect(bytes.count == 64 + 5 + new.lineLength && bytes[64..<69].elementsEqual("value".utf8))
        #expect(Self.hex(bytes.prefix(64)) == Self.entryHeader)
    }

    private static let headerCheck = "d03eea023c9d0526"
    private static let settledCheck = "dd7bab27ca3021fa"
    private static let entryHeader =
        "003ddba59a010000005c26050000000011000000000000003024db5dcd602db7"
        + "ad28258de1cf961c8e00000005000000875231d42ea6b9cf0000000000000000"
}

@Suite("A place in a segment")
struct PlaceTests {
    @Test("is packed and unpacked", arguments: [1, 0x1234, Place.lastSegment])
    func packed(segment: UInt64) throws {
        for offset in [64, 128, Place.end - 32] {
            let place = try #require(Place(segment: segment, offset: offset))
            #expect(place.segment == segment && place.offset == offset && place.isInSegment)
            #expect(Place(packed: place.packed) == place)
        }
    }

    @Test("is never that of a header, between two units, or beyond the end")
    func invalid() {
        for offset in [0, -32, 33, Place.end] { #expect(Place(segment: 1, offset: offset) == nil) }
        #expect(Place(segment: 0, offset: 32) == nil)
        #expect(Place(segment: Place.lastSegment + 1, offset: 32) == nil)
        #expect(Place(packed: 0) == nil && Place(packed: 5) == nil && Place(packed: 1 << 21) == nil)
    }

    @Test("stands for a whole segment at an offset where no entry begins")
    func whole() throws {
        let place = try #require(Place.whole(3))
        #expect(place.isWholeSegment && place.isInSegment && place.segment == 3)
        #expect(place.offset < SegmentFormat.start && Place(packed: place.packed)?.isWholeSegment == true)
    }

    @Test("orders files of one number, and only those")
    func order() throws {
        let place = try #require(Place(segment: 1, offset: 32))
        #expect(FileID(number: 1, place: place) < FileID(2))
        #expect(FileID(1) < FileID(number: 1, place: place) && FileID(1) != FileID(number: 1, place: place))
    }
}
