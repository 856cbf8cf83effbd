import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("A record is one checked line of JSON")
struct RecordTests {
    static let entry = IndexEntry(
        keyText: "a/b", file: FileID(17), change: 17, stored: Timestamp(milliseconds: 1_763_632_800_000),
        life: Life(expires: Timestamp(milliseconds: 1_763_719_200_000), ttl: 86_400_000),
        used: Timestamp(milliseconds: 1_763_632_800_000), size: 5, checksum: 0x26C7_827D_889F_6DA3)

    static func text(_ record: Record) -> String {
        var printer = RecordPrinter()
        printer.append(record)
        return String(decoding: printer.bytes, as: UTF8.self)
    }

    static func scan(_ text: String) -> Record? {
        Array(text.utf8).withBytes { RecordScanner.record(on: $0) }
    }

    /// These bytes are on users' disks: the list may grow, but never change.
    @Test("version 1 has exactly these bytes")
    func golden() {
        var renewed = Self.entry
        renewed.keyText = "é\"\\\n\u{0}"
        renewed.change = 20
        renewed.life = .forever
        renewed.used = Timestamp(milliseconds: 1_763_632_860_000)
        renewed.attachments = Attachments(
            .init(tags: ["t"]), metadata: ["etag": "\"x\"", "a": ""], unknown: Array(#","zz":[1]"#.utf8))
        var kept = Self.entry
        kept.attachments = Attachments(.init(keptStale: 5, isAbsent: true, mustRevalidate: true))
        var coded = Self.entry
        coded.attachments = Attachments(.init(coding: .json))
        var codedAndMore = Self.entry
        codedAndMore.attachments = Attachments(
            .init(namespace: Namespace("users"), tags: ["t"], keptStale: 5, mustRevalidate: true, coding: .string),
            metadata: ["etag": "1"], unknown: Array(#","zz":[1]"#.utf8))
        var ranked = Self.entry
        ranked.rank = Rank(.probation, hits: 3)
        let life = Life(expires: Timestamp(milliseconds: -5), ttl: Life.unlimited)
        let golden: [(Record, String)] = [
            (
                .set(Self.entry),
                #"{"k":"a/b","n":17,"s":1763632800000,"e":1763719200000,"t":86400000,"z":5,"h":"26c7827d889f6da3","c":"7ece312d56d7b1f3"}"#
            ),
            (
                .set(renewed),
                #"{"k":"é\"\\\u000a\u0000","n":17,"l":20,"s":1763632800000,"u":1763632860000,"z":5,"h":"26c7827d889f6da3","m":{"a":"","etag":"\"x\""},"tg":["t"],"zz":[1],"c":"c4acd0517085ba9c"}"#
            ),
            (
                .set(kept),
                #"{"k":"a/b","n":17,"s":1763632800000,"e":1763719200000,"t":86400000,"z":5,"h":"26c7827d889f6da3","ks":5,"ab":1,"mr":1,"c":"0d1560bb9210bad7"}"#
            ),
            (
                .set(coded),
                #"{"k":"a/b","n":17,"s":1763632800000,"e":1763719200000,"t":86400000,"z":5,"h":"26c7827d889f6da3","cd":"json","c":"d162da91496bc28c"}"#
            ),
            (
                .set(codedAndMore),
                #"{"k":"a/b","ns":"users","n":17,"s":1763632800000,"e":1763719200000,"t":86400000,"z":5,"h":"26c7827d889f6da3","m":{"etag":"1"},"tg":["t"],"ks":5,"mr":1,"cd":"utf8","zz":[1],"c":"b566afba8306df0a"}"#
            ),
            (.header(version: 1, generation: 2, last: 17), #"{"larder":1,"g":2,"n":17,"c":"69c0e1e7f440b0b6"}"#),
            (.remove(key: "a/b", number: 18), #"{"o":"remove","k":"a/b","n":18,"c":"4ea0cacc4a8a1596"}"#),
            (
                .life(key: "a/b", file: 17, change: 19, life),
                #"{"o":"life","k":"a/b","f":17,"n":19,"e":-5,"c":"c5c555e77f8e1344"}"#
            ),
            (
                .life(key: "a/b", file: 17, change: 19, life, .init(metadata: ["etag": "y"], keptStale: 6)),
                #"{"o":"life","k":"a/b","f":17,"n":19,"e":-5,"m":{"etag":"y"},"ks":6,"c":"85d48dd0f77b9c3c"}"#
            ),
            (
                .used(
                    key: "a/b", file: 17, change: 19, at: Timestamp(milliseconds: 7),
                    expires: Timestamp(milliseconds: 8)),
                #"{"o":"used","k":"a/b","f":17,"n":19,"u":7,"e":8,"c":"04f3a804fd63d5b6"}"#
            ),
            (
                .used(
                    key: "a/b", file: 17, change: 19, at: Timestamp(milliseconds: 7),
                    decision: Rank.Decision(rank: Rank(.protected, hits: 2), number: 21),
                    expires: Timestamp(milliseconds: 8)),
                #"{"o":"used","k":"a/b","f":17,"n":19,"u":7,"r":10,"l":21,"e":8,"c":"1221fc1d15aec6b5"}"#
            ),
            (
                .set(ranked),
                #"{"k":"a/b","n":17,"s":1763632800000,"e":1763719200000,"t":86400000,"r":7,"z":5,"h":"26c7827d889f6da3","c":"5db9d195217fc45d"}"#
            ),
            (.clear(.everything, number: 20), #"{"o":"clear","n":20,"c":"b245e8e37d0f4bf5"}"#),
            (.clear(.namespace(.none), number: 20), #"{"o":"clear","ns":"","n":20,"c":"f67fababff2e0806"}"#),
            (
                .clear(.tag(Key("\"x\"", in: Namespace("users"))), number: 20),
                #"{"o":"clear","ns":"users","tg":["\"x\""],"n":20,"c":"66b4bdb9acef7272"}"#
            ),
            (.closed(number: 21), #"{"o":"closed","n":21,"c":"a2b15e09e1ffe4e6"}"#),
        ]
        for (record, expected) in golden { #expect(Self.text(record) == expected) }
        guard case .set(let read)? = Self.scan(Self.text(.set(ranked))) else {
            Issue.record("no entry")
            return
        }
        #expect(read.rank == ranked.rank && read.size == ranked.size)
        for (entry, name) in [(coded, "json"), (codedAndMore, "utf8")] {
            #expect(Self.scan(Self.text(.set(entry))) == .set(entry))
            guard case .set(let read)? = Self.scan(Self.text(.set(entry))) else { continue }
            #expect(read.coding == Coding(name))
        }
    }

    @Test(
        "a coding of a later version is kept verbatim, and its value can be read only as bytes",
        arguments: ["", "later", "e\u{301}", "\u{e9}", "a\"\\"])
    func unknownCoding(name: String) {
        var entry = Self.entry
        for isAlone in [true, false] {
            entry.attachments = Attachments(.init(coding: Coding(name)), metadata: isAlone ? [:] : ["a": "b"])
            guard case .set(let read)? = Self.scan(Self.text(.set(entry))) else {
                Issue.record("not read")
                return
            }
            #expect(read.coding?.name.hasSameBytes(as: name) == true)
            #expect(Self.text(.set(read)) == Self.text(.set(entry)))
            for coding in [Coding.string, .json, .propertyList, .archive, .bytes] {
                #expect(!Coding.mayRead(read.coding, as: coding))
            }
            #expect(Coding.mayRead(read.coding, as: nil))
        }
        #expect(Coding("e\u{301}") != Coding("\u{e9}"))
    }

    @Test("a record is read as it was printed, and is valid JSON")
    func roundTrip() throws {
        var generator = SeededGenerator(seed: 7)
        let keys = [
            "", "..", "a/b", "\u{0}\n\t\"\\", "e\u{301}", "é", "\u{2028}🍎", String(repeating: "k", count: 70_000),
        ]
        for key in keys {
            var entry = Self.entry
            entry.keyText = key
            entry.file = FileID(UInt64.random(in: 1...Record.lastNumber, using: &generator))
            entry.file.place = Bool.random(using: &generator) ? .ownFile : Place(segment: 9, offset: 128)!
            entry.change = entry.file.number
            entry.attachments = Attachments(metadata: [key: key])
            let text = Self.text(.set(entry))
            _ = try JSONSerialization.jsonObject(with: Data(text.utf8))
            guard case .set(let read)? = Self.scan(text) else {
                Issue.record("not read: \(text.prefix(200))")
                continue
            }
            #expect(read.keyText.hasSameBytes(as: key))
            #expect(read.file == entry.file && read.life == entry.life && read.checksum == entry.checksum)
            #expect(read.attachments?.metadata == [key: key])
            #expect(Self.text(.set(read)) == text)
        }
    }

    @Test("fields of later versions are kept verbatim")
    func unknownFields() {
        let body =
            #"{"k":"a","n":1,"ns":"users","s":1,"v":{"a":[1,"]"],"b":"\"}"},"z":0,"x":null,"h":"0000000000000000","y":-1.5e3"#
        let text = Self.checked(body)
        guard case .set(let entry)? = Self.scan(text) else {
            Issue.record("not read")
            return
        }
        let printed = Self.text(.set(entry))
        for field in [#","ns":"users""#, #","v":{"a":[1,"]"],"b":"\"}"}"#, #","x":null"#, #","y":-1.5e3"#] {
            #expect(printed.contains(field))
        }
        guard case .unknown? = Self.scan(Self.checked(#"{"o":"later","k":"a""#)) else {
            Issue.record("an operation of a later version counts as damage")
            return
        }
    }

    static func checked(_ body: String) -> String {
        let check = Array(body.utf8).withBytes { XXH64.hash($0) }
        return body + #","c":""# + FileName.number(check).description + #""}"#
    }

    @Test("a truncated line, or one with any bit flipped, is not a record")
    func damage() {
        let text = Array(Self.text(.set(Self.entry)).utf8)
        for length in 0..<text.count {
            #expect(Array(text.prefix(length)).withBytes { RecordScanner.record(on: $0) } == nil)
        }
        for position in text.indices {
            for bit in 0..<8 {
                var flipped = text
                flipped[position] ^= 1 << bit
                #expect(flipped.withBytes { RecordScanner.record(on: $0) } == nil)
            }
        }
    }

    @Test(
        "a hostile line with a valid check is refused or harmless",
        arguments: [
            #"{"k":"a","n":0,"s":1,"z":0,"h":"0000000000000000""#,
            #"{"k":"a","n":1,"s":1,"z":-1,"h":"0000000000000000""#,
            #"{"k":"a","n":1,"s":1,"z":9223372036854775807,"h":"0000000000000000""#,
            #"{"k":"a","n":99999999999999999999,"s":1,"z":0,"h":"0000000000000000""#,
            #"{"k":"a","n":9007199254740993,"s":1,"z":0,"h":"0000000000000000""#,
            #"{"k":"a","n":1,"s":99999999999999999999,"z":0,"h":"0000000000000000""#,
            #"{"k":"a","n":1,"s":1,"z":0,"h":"000000000000000""#,
            #"{"k":"a\q","n":1,"s":1,"z":0,"h":"0000000000000000""#,
            #"{"k":"a","n":1,"s":1,"z":0,"h":"0000000000000000","m":{"a"}"#,
            #"{"k":"a","n":1,"s":1,"z":0,"h":"0000000000000000","cd":1"#,
            #"{"k":"a","n":1,"s":1,"z":0,"h":"0000000000000000","cd":"json"#,
            #"{"k":"a","n":1,"s":1,"z":0,"h":"0000000000000000","x":"#,
            #"{"k":"a","n":1,"s":1,"z":0,"h":"0000000000000000","x":[1"#,
            #"{"k":"a","n":1,"s":1,"z":0,"h":"0000000000000000","x":"\"#,
            #"{"n":1"#, #"{"larder":1"#, #"{"o":"life","k":"a","n":1"#, "{", #"{""#, #"{"k""#, #"{"k":"#,
        ])
    func hostile(body: String) {
        #expect(Self.scan(Self.checked(body)) == nil)
    }
}

extension Optional where Wrapped == Record {
    static func == (left: Self, right: Self) -> Bool {
        left.map(RecordTests.text) == right.map(RecordTests.text)
    }
}
