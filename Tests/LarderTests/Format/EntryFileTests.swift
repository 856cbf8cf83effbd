import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("An entry file describes itself")
struct EntryFileTests {
    static func file(_ payload: String, _ entry: IndexEntry) -> [UInt8] {
        var printer = RecordPrinter()
        printer.append(.set(entry))
        EntryFile.appendTrailer(to: &printer, recordLength: printer.count, life: entry.life, change: entry.change)
        return Array(payload.utf8) + printer.bytes
    }

    private func footer(_ file: [UInt8], number: UInt64 = 17) -> EntryFile.Footer {
        file.withBytes { EntryFile.footer(of: number, tail: $0, fileSize: file.count) }
    }

    @Test("version 1 has exactly these bytes")
    func golden() {
        let file = Self.file("hello", RecordTests.entry)
        let hex = file.map { FileName.number(UInt64($0)).description.suffix(2) }.joined()
        #expect(file.count == 5 + RecordTests.text(.set(RecordTests.entry)).utf8.count + 64)
        #expect(hex.hasPrefix("68656c6c6f7b226b22"))
        #expect(
            hex.suffix(128)
                == "003ddba59a010000005c2605000000001100000000000000420253cf2858f8f3b5bda053b9cb9b8777000000000000006c617264657220656e7472792030310a"
        )
        var coded = RecordTests.entry
        coded.attachments = Attachments(.init(coding: .json))
        let codedFile = Self.file("[1,2]", coded)
        let codedHex = codedFile.map { FileName.number(UInt64($0)).description.suffix(2) }.joined()
        #expect(
            codedHex.suffix(128)
                == "003ddba59a010000005c26050000000011000000000000005f1051961f316ff4dc2b4af9f71b839683000000000000006c617264657220656e7472792030310a"
        )
        guard case .valid(let read) = footer(codedFile) else {
            Issue.record("not read")
            return
        }
        #expect(read.coding == .json)
    }

    @Test("the footer restores the entry")
    func valid() {
        guard case .valid(let entry) = footer(Self.file("hello", RecordTests.entry)) else {
            Issue.record("not read")
            return
        }
        #expect(RecordTests.text(.set(entry)) == RecordTests.text(.set(RecordTests.entry)))
    }

    @Test("a file with another number or another payload length is not an entry")
    func misplaced() {
        let file = Self.file("hello", RecordTests.entry)
        guard case .invalid = footer(file, number: 18), case .invalid = footer(Self.file("hell", RecordTests.entry))
        else {
            Issue.record("a footer that does not fit was accepted")
            return
        }
    }

    @Test("a truncated file is not an entry")
    func truncated() {
        let file = Self.file("hello", RecordTests.entry)
        for length in 0..<file.count {
            if case .valid = footer(Array(file.prefix(length))) { Issue.record("accepted when cut at \(length)") }
        }
    }

    @Test("a flipped bit outside the payload is noticed; in the life slot it counts as expired")
    func flipped() {
        let file = Self.file("hello", RecordTests.entry)
        for position in file.indices {
            for bit in 0..<8 {
                var flipped = file
                flipped[position] ^= 1 << bit
                let isInSlot = (file.count - 64..<file.count - 32).contains(position)
                if case .valid(let entry) = footer(flipped) {
                    #expect(position < 5 || isInSlot && entry.life.isExpired(at: Timestamp(milliseconds: 0)))
                }
            }
        }
    }

    @Test("a footer of a newer format is distinguished from damage")
    func newer() {
        var file = Self.file("hello", RecordTests.entry)
        file[file.count - 2] = UInt8(ascii: "2")
        guard case .newer = footer(file) else {
            Issue.record("not recognized")
            return
        }
    }

    @Test("a record longer than the bytes read requests more")
    func longer() {
        let file = Self.file("hello", RecordTests.entry)
        let tail = Array(file.suffix(100))
        guard case .longer(let needed) = tail.withBytes({ EntryFile.footer(of: 17, tail: $0, fileSize: file.count) })
        else {
            Issue.record("no more bytes requested")
            return
        }
        #expect(needed == file.count - 5)
    }
}
