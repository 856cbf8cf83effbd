import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("The last record of a manifest, and the groups of keys")
struct GroupTableTests {
    static func table(_ count: Int) -> GroupTable {
        let groups = (0..<count).map { number in
            GroupTable.Group(
                length: 100 * number,
                totals: EntryTotals(count: number, size: 10 * number, allocatedSize: 4096 * number),
                earliest: number.isMultiple(of: 2) ? Timestamp(milliseconds: Int64(number)) : nil,
                latest: number.isMultiple(of: 3) ? nil : Timestamp(milliseconds: Int64(2 * number)),
                check: UInt64(number) &* 0x9E37_79B9_7F4A_7C15)
        }
        let named = [Namespace("a\"b"): EntryTotals(count: 1, size: 2, allocatedSize: 4096)]
        return GroupTable(generation: 7, seed: 42, start: 54, groups: groups, namespaces: named)
    }

    private func parsed(_ record: Record) -> Record? {
        var printer = RecordPrinter()
        printer.append(record)
        return printer.withBytes { RecordScanner.record(on: $0) }
    }

    @Test("is read as it was written, up to the most groups", arguments: [1, 2, 64, GroupTable.mostGroups])
    func roundTrip(count: Int) throws {
        guard case .groups(let found)? = parsed(.groups(Self.table(count))) else {
            Issue.record("the record was not read")
            return
        }
        #expect(found == Self.table(count))
    }

    @Test("with a number of groups that is no power of two, or with numbers out of bounds, it is damaged")
    func hostile() {
        #expect(parsed(.groups(Self.table(3))) == nil)
        var long = Self.table(2)
        long.groups[1].length = 1 << 48
        #expect(parsed(.groups(long)) == nil)
        var many = Self.table(2)
        for number in 0...SavedTotals.mostNamespaces { many.namespaces?[Namespace("\(number)")] = EntryTotals() }
        #expect(parsed(.groups(many)) == nil)
    }

    @Test("a journal line is routed to the group of its key, whatever the key and the operation")
    func routes() {
        let hash = GroupHash(seed: 99, count: 1024)
        let texts = [
            "a", "", "a/b", "quote \" and \\", "line\nfeed", "é", "e\u{301}", String(repeating: "k", count: 500),
        ]
        for text in texts {
            for namespace in [Namespace.none, Namespace("users"), Namespace("a\"b")] {
                let key = Key(text, in: namespace)
                var entry = RecordTests.entry
                entry.keyText = text
                entry.attachments = Attachments(.init(namespace: namespace))
                entry.file = FileID(17)
                entry.change = 19
                let records: [(Record, number: UInt64, isTaken: Bool, file: UInt64?)] = [
                    (.set(entry), 19, false, 17), (.remove(key: key, number: 20), 20, false, nil),
                    (.life(key: key, file: 17, change: 21, .forever), 21, true, nil),
                    (.used(key: key, file: 17, change: 19, at: entry.used, expires: entry.used), 19, true, nil),
                    (.obsolete(file: FileID(17), of: key), 17, false, nil),
                ]
                for (record, number, isTaken, file) in records {
                    var printer = RecordPrinter()
                    printer.append(record)
                    let route = printer.withBytes { RecordRoute(of: $0, among: hash) }
                    guard case .keyed(let group, let found, let wasTaken, let used, _) = route else {
                        Issue.record("\(record) has no route")
                        continue
                    }
                    #expect(group == hash.group(of: key) && group == hash.group(of: entry) && found == number)
                    #expect(used == file)
                    // A slow route may leave out that the number was taken, and never invents it.
                    #expect(!wasTaken || isTaken)
                }
            }
        }
    }
}
