import LarderFiles
import Testing

@testable import Larder

@Suite("Every file name is defined in one place")
struct DirectoryLayoutTests {
    @Test(
        "every name is read as it is written",
        arguments: [
            DirectoryLayout.manifest(.json), .manifest(.propertyList), .entries, .trash, .journal(1),
            .journal(Record.lastNumber),
            .temporaryManifest(42),
        ])
    func roundTrip(layout: DirectoryLayout) {
        #expect(DirectoryLayout(layout.name) == layout)
    }

    @Test(
        "names that only look like ours are foreign",
        arguments: [
            "", "manifest", "EntryTable.json", "journal-1.jsonl", "journal-000000000000000G.jsonl", "journal-.jsonl",
            "journal-00000000000000001.jsonl", "journal-ffffffffffffffff.jsonl", "manifest-.tmp", "0000000000000001",
        ])
    func foreign(name: String) {
        #expect(DirectoryLayout(FileName(name)) == nil)
    }

    @Test("a file's number is 16 lower-case hex digits and nothing else")
    func numbers() {
        #expect(FileName.number(1).description == "0000000000000001")
        #expect(FileName.number(.max).description == "ffffffffffffffff")
        #expect(FileName("00000000000000ff") == .number(255))
        #expect(FileName("00000000000000FF") == .text("00000000000000FF"))
        #expect(FileName("0000000000000ff") == .text("0000000000000ff"))
    }
}
