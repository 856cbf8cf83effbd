import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Marks of expired scopes")
struct ExpiryMarksTests {
    private static func mark(_ number: UInt64, _ time: Int64) -> ExpiryMarks.Mark {
        ExpiryMarks.Mark(number: number, time: Timestamp(milliseconds: time))
    }

    @Test("a life without a key has its own bytes, in a record and in a tombstone that version 1 leaves alone")
    func golden() {
        let time = Timestamp(milliseconds: 1_763_632_800_000)
        let records: [(ClearScope, String)] = [
            (.namespace(.none), #"{"o":"life","ns":"","n":20,"e":1763632800000,"c":""#),
            (.namespace(Namespace("users")), #"{"o":"life","ns":"users","n":20,"e":1763632800000,"c":""#),
            (.tag("t"), #"{"o":"life","tg":["t"],"n":20,"e":1763632800000,"c":""#),
            (
                .tag(Key("\"x\"", in: Namespace("users"))),
                #"{"o":"life","ns":"users","tg":["\"x\""],"n":20,"e":1763632800000,"c":""#
            ),
        ]
        for (scope, expected) in records {
            let text = RecordTests.text(.expire(scope, number: 20, at: time))
            #expect(text.hasPrefix(expected) && text.utf8.count == expected.utf8.count + 18)
            guard case .expire(scope, 20, time)? = RecordTests.scan(text) else {
                Issue.record("\(text) is not read")
                continue
            }
            let bytes = EntryFile.tombstone(of: .expiry(scope, at: time), number: 20)
            #expect(bytes.starts(with: text.utf8) && bytes.suffix(16).elementsEqual("larder entry 03\n".utf8))
            func read(_ bytes: [UInt8]) -> EntryFile.Tombstone { bytes.withBytes { EntryFile.tombstone(20, $0) } }
            #expect(read(bytes) == .valid(.expiry(scope, at: time)))
            for position in bytes.indices where !(bytes.count - 64..<bytes.count - 32).contains(position) {
                var flipped = bytes
                flipped[position] ^= 1
                #expect(read(flipped) != .valid(.expiry(scope, at: time)), "byte \(position)")
            }
            for end in 0..<bytes.count { #expect(read(Array(bytes.prefix(end))) == .invalid) }
            for version in ["01", "02"] {
                let other = Array(bytes.dropLast(3) + Array("\(version)\n".utf8))
                #expect(read(other) == (version == "01" ? .invalid : .newer), "never trusted")
            }
            let clear = EntryFile.tombstone(of: .scope(.tag("t")), number: 20)
            #expect(read(Array(clear.dropLast(3) + Array("03\n".utf8))) == .newer)
        }
    }

    @Test("a line with fewer or more fields is damage, so the files decide")
    func damage() {
        for fields in [
            #"{"o":"life","ns":"users","n":20"#, #"{"o":"life","ns":"users","e":5"#,
            #"{"o":"life","ns":"users","n":20,"e":5,"f":3"#, #"{"o":"life","ns":"users","n":20,"e":5,"zz":1"#,
            #"{"o":"life","ns":"","tg":["t"],"n":20,"e":5"#, #"{"o":"life","tg":["t","u"],"n":20,"e":5"#,
        ] {
            let check = Array(fields.utf8).withBytes { XXH64.hash($0) }
            let line = fields + #","c":""# + FileName.number(check).description + #""}"#
            #expect(RecordTests.scan(line) == nil, "\(line)")
        }
    }

    @Test("the first mark after the last change ends a life, unless a later one does so earlier")
    func first() {
        var marks = ExpiryMarks()
        var entry = RecordTests.entry
        entry.attachments = Attachments(.init(tags: ["t"]))
        entry.life = .forever
        func end(_ change: UInt64, expires: Int64 = Life.unlimited) -> [Int64]? {
            var changed = entry
            changed.change = change
            changed.life.expires.milliseconds = expires
            let ended = marks.ending(changed)
            #expect(ended.map { marks.concern($0) && marks.ending($0) == nil && $0.life.isEnded } != false)
            return ended.map { [Int64($0.change), $0.life.expires.milliseconds] }
        }
        #expect(end(1) == nil)
        marks.add(Self.mark(10, 100), to: .namespace(.none))
        marks.add(Self.mark(20, 200), to: .tag("t"))
        marks.add(Self.mark(30, 300), to: .namespace(.none))
        marks.add(Self.mark(15, 1), to: .tag("other"))
        marks.add(Self.mark(16, 1), to: .namespace(Namespace("other")))
        #expect(end(9) == [10, 100] && end(10) == [20, 200] && end(25) == [30, 300] && end(30) == nil)
        #expect(end(9, expires: 101) == [10, 100] && end(9, expires: 90) == [10, 90])
        // The clock was set back.
        marks.add(Self.mark(40, 50), to: .tag("t"))
        #expect(end(9) == [40, 50] && end(35) == [40, 50] && end(40) == nil)
        #expect(marks.scopes[.tag("t")] == [Self.mark(40, 50)], "the others end no life that this one does not")
        marks.add(Self.mark(40, 50), to: .tag("t"))
        marks.add(Self.mark(39, 60), to: .tag("t"))
        #expect(marks.count == 5)
    }

    @Test("all marks together have the same effect as one after the other", arguments: 1...20 as ClosedRange<UInt64>)
    func oneAfterTheOther(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let scopes: [ClearScope] = [.everything, .namespace(.none), .tag("t"), .tag("u")]
        var entry = RecordTests.entry
        entry.attachments = Attachments(.init(tags: ["t", "u"]))
        var placed: [(ClearScope, ExpiryMarks.Mark)] = []
        for number in 1...12 as ClosedRange<UInt64> {
            let time = Int64(number) * 10 - (generator.chance(30) ? Int64.random(in: 0..<60, using: &generator) : 0)
            placed.append((scopes.randomElement(using: &generator) ?? .everything, Self.mark(number * 2, time)))
        }
        var marks = ExpiryMarks()
        for (scope, mark) in placed.shuffled(using: &generator) { marks.add(mark, to: scope) }
        for change in 0...26 as ClosedRange<UInt64> {
            var one = entry
            one.change = change
            one.life = Life(
                expires: Timestamp(milliseconds: Int64.random(in: 0...200, using: &generator)), ttl: Life.unlimited)
            let before = one
            for (_, mark) in placed where one.change < mark.number {
                if one.life.isEnded, one.life.expires <= mark.time { continue }
                one.life = .ended(at: min(mark.time, one.life.expires))
                one.change = mark.number
            }
            let all = marks.ending(before) ?? before
            #expect(all.life == one.life, "seed \(seed), change \(change)")
            #expect((all.change == before.change) == (one.change == before.change), "seed \(seed), change \(change)")
        }
    }
}
