import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("Property lists, and readers that hostile bytes cannot crash")
struct PropertyListTests {
    static var sample: [String: Any] {
        [
            "string": "é\u{0}🍎", "e\u{301}": "decomposed", "data": Data([1, 2, 3]), "integer": -7, "large": UInt64.max,
            "real": 2.5, "yes": true, "no": false, "date": Date(timeIntervalSince1970: 1_763_632_800.123),
            "array": [1, ["nested": "x"], [Any]()] as [Any], "empty": [String: Any](),
            "long": String(repeating: "word ", count: 60),
        ]
    }

    private func encoded(
        _ list: Any, _ format: PropertyListSerialization.PropertyListFormat = .binary
    ) throws -> Data {
        try PropertyListSerialization.data(fromPropertyList: list, format: format, options: 0)
    }

    static func expectSample(_ value: Any?, text: String = "é\u{0}🍎") throws {
        let list = try #require(value as? [String: Any])
        #expect(list.count == sample.count)
        #expect(list["string"] as? String == text && list["data"] as? Data == Data([1, 2, 3]))
        #expect(list["e\u{301}"] as? String == "decomposed")
        #expect(list["integer"] as? Int == -7 && list["large"] as? UInt64 == .max && list["real"] as? Double == 2.5)
        #expect(list["yes"] as? Bool == true && list["no"] as? Bool == false)
        let array = try #require(list["array"] as? [Any])
        #expect(array[0] as? Int == 1 && (array[1] as? [String: String])?["nested"] == "x")
        #expect((array[2] as? [Any])?.isEmpty == true && (list["empty"] as? [String: Any])?.isEmpty == true)
        #expect((list["long"] as? String)?.count == 300)
    }

    @Test("an XML list is read too")
    func xml() throws {
        var sample = Self.sample
        sample["string"] = "<&>\"' é🍎"
        let value = PropertyList(try encoded(sample, .xml))?.value
        try Self.expectSample(value, text: "<&>\"' é🍎")
        let date = (value as? [String: Any])?["date"] as? Date
        #expect(date == Date(timeIntervalSince1970: 1_763_632_800))
    }

    @Test("hand-written XML is read: comments, CDATA, entities, empty elements, signs, fractions of a second")
    func handwritten() throws {
        let text = """
            \u{FEFF}<?xml version="1.0" encoding="UTF-8"?>
            <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
            <!-- a comment -->
            <plist version="1.0"><dict>
              <key>a&#x62;&#99;</key><string>x<![CDATA[<&>]]>y<!-- no --></string>
              <key/><string/>
              <key>n</key><integer> -12 </integer><key>h</key><integer>0xff</integer>
              <key>t</key><true></true><key>f</key><false/>
              <key>d</key><date>2013-05-01T12:00:00.250Z</date>
              <key>l</key><array/><key>b</key><data> AQ ID </data>
            </dict></plist>
            """
        let list = try #require(PropertyList(data(text))?.value as? [String: Any])
        #expect(list["abc"] as? String == "x<&>y" && list[""] as? String == "")
        #expect(list["n"] as? Int == -12 && list["h"] as? Int == 255)
        #expect(list["t"] as? Bool == true && list["f"] as? Bool == false)
        #expect((list["d"] as? Date)?.timeIntervalSince1970 == 1_367_409_600.25)
        #expect((list["l"] as? [Any])?.isEmpty == true && list["b"] as? Data == Data([1, 2, 3]))
    }

    @Test(
        "dates follow the calendar",
        arguments: [
            ("1970-01-01T00:00:00Z", 0), ("2000-02-29T12:34:56Z", 951_827_696), ("1969-12-31T23:59:59Z", -1),
            ("2001-01-01T00:00:00Z", 978_307_200), ("4001-01-01T00:00:00Z", 64_092_211_200),
            ("0001-01-01T00:00:00Z", -62_135_596_800),
        ])
    func dates(text: String, seconds: Double) {
        #expect(XMLPropertyListReader.date(text)?.timeIntervalSince1970 == seconds)
    }

    @Test(
        "invalid dates are refused",
        arguments: [
            "", "Z", "2013-05-01T12:00:00.Z", "2013-05-01T12:00:00", "2013-05-01T12:00:00ZZ", "2013-05-01 12:00:00Z",
            "2013-05-01T12:00:00.1.2Z", "--T::Z", "2013-05-01T24:00:00Z", "99999999999-01-01T00:00:00Z",
            "-1-01-01T00:00:00Z",
        ])
    func noDates(text: String) {
        #expect(XMLPropertyListReader.date(text) == nil)
    }

    @Test(
        "invalid property lists are refused",
        arguments: [
            "", "hello", "{ a = b; }", "<plist>", "<plist></plist>", "<plist><dict><key>a</key></dict></plist>",
            "<plist><integer>x</integer></plist>", "<plist><date>today</date></plist>", "bplist00",
            "<!DOCTYPE plist [<!ENTITY a \"b\">]><plist><string>&a;</string></plist>", "<plist><string>&a;</string>",
            "<plist><array><integer>1</integer></plist>", "<plist><string>\u{1}</strin", "<a/>",
            "<plist><date>2013-13-01T12:00:00Z</date></plist>",
            "<plist><integer>99999999999999999999</integer></plist>",
        ])
    func none(text: String) {
        #expect(PropertyList(data(text)) == nil)
    }

    @Test("lists nested too deeply, in themselves, or many times over are refused")
    func hostileShapes() throws {
        let deep = String(repeating: "<array>", count: 200_000)
        #expect(PropertyList(data("<plist>" + deep)) == nil)
        #expect(PropertyList(data("<plist><dict><key>a</key>" + deep)) == nil)
        /// Arrays, each of which refers to the next one `mentions` times.
        func chain(_ count: Int, mentions: Int, ending last: [UInt8]) -> Data {
            var bytes = Array("bplist00".utf8)
            var offsets: [Int] = []
            for number in 0..<count {
                offsets.append(bytes.count)
                bytes.append(0xA0 + UInt8(mentions))
                for _ in 0..<mentions { bytes += [UInt8((number + 1) >> 8), UInt8((number + 1) & 255)] }
            }
            offsets.append(bytes.count)
            bytes += last
            let table = bytes.count
            for offset in offsets {
                bytes += [UInt8(offset >> 16 & 255), UInt8(offset >> 8 & 255), UInt8(offset & 255)]
            }
            bytes += [0, 0, 0, 0, 0, 0, 3, 2]
            for number in [count + 1, 0, table] {
                bytes += (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - 8 * $0)) }
            }
            return Data(bytes)
        }
        #expect(PropertyList(chain(100, mentions: 1, ending: [0x51, 0x61])) != nil)
        #expect(PropertyList(chain(60_000, mentions: 1, ending: [0x51, 0x61])) == nil)
        #expect(PropertyList(chain(90, mentions: 2, ending: [0x51, 0x61])) == nil, "two to the ninetieth strings")
        #expect(PropertyList(chain(3, mentions: 1, ending: [0xA1, 0, 0])) == nil, "the last contains the first")
    }

    @Test("a small list that expands to a large one by repeating one text is read")
    func amplification() {
        /// One array that refers to many objects, all of which are the same long text.
        func sameText(_ objects: Int, length: Int) -> Data {
            var bytes = Array("bplist00".utf8) + [0xAF, 0x12]
            func number(_ value: Int, _ width: Int) -> [UInt8] {
                (0..<width).map { UInt8(truncatingIfNeeded: value >> (8 * (width - 1 - $0))) }
            }
            bytes += number(objects, 4)
            for object in 1...objects { bytes += number(object, 3) }
            let text = bytes.count
            bytes += [0x5F, 0x12] + number(length, 4) + [UInt8](repeating: 0x61, count: length)
            let table = bytes.count
            bytes += number(8, 3)
            for _ in 0..<objects { bytes += number(text, 3) }
            bytes += [0, 0, 0, 0, 0, 0, 3, 3] + number(objects + 1, 8) + number(0, 8) + number(table, 8)
            return Data(bytes)
        }
        let list = PropertyList(sameText(20_000, length: 40_000))
        #expect(list?.array?.count == 20_000)
        #expect(Set((list?.array ?? []).compactMap { $0.string?.utf8.count }) == [40_000])
    }

    @Test("every flipped bit and every truncation of a list is read or refused")
    func flips() throws {
        for format in [PropertyListSerialization.PropertyListFormat.binary, .xml] {
            var sample = Self.sample
            sample["string"] = "plain"
            let bytes = try encoded(sample, format)
            var readable = 0
            for position in Sample.few(100, of: bytes.indices) {
                _ = PropertyList(bytes.prefix(position))?.value
                for bit in 0..<8 {
                    var flipped = bytes
                    flipped[position] ^= 1 << UInt8(bit)
                    if PropertyList(flipped)?.value != nil { readable += 1 }
                }
            }
            #expect(readable > 0 && readable < bytes.count * 8)
        }
    }

    @Test(
        "lists with many random bytes changed are read or refused",
        arguments: Sample.few(1, of: 1...4 as ClosedRange<UInt64>))
    func random(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let bytes = try encoded(Self.sample)
        for _ in 0..<3000 {
            var changed = bytes
            for _ in 0..<Int.random(in: 1...8, using: &generator) {
                let position = Int.random(in: 0..<changed.count, using: &generator)
                changed[position] =
                    [0, 1, 0x0F, 0x1F, 0xFF, UInt8.random(in: 0...255, using: &generator)]
                    .randomElement(using: &generator) ?? 0
            }
            _ = PropertyList(changed)?.value
        }
        print("property list test: seed \(seed)")
    }

    @Test("a list of the maximum depth is read on a thread's small stack")
    func stack() throws {
        var deep: Any = "x"
        for _ in 0..<PropertyList.deepest - 1 { deep = ["a": deep] }
        let bytes = [try encoded(deep), try encoded(deep, .xml)]
        let results = Lock<[Bool]>([])
        let done = DispatchSemaphore(value: 0)
        let thread = Thread {
            for bytes in bytes {
                let isRead = PropertyList(bytes)?.value != nil
                results.withLock { $0.append(isRead) }
            }
            done.signal()
        }
        thread.stackSize = 512 << 10
        thread.start()
        done.wait()
        #expect(results.withLock { $0 } == [true, true])
    }
}
