import LarderFiles

/// A numbered entry with its journal line and its file's footer. Both share the record, which is printed once.
struct NewEntry: ~Copyable {
    private(set) var entry: IndexEntry
    private let printer: RecordPrinter
    /// The bytes of a segment before the line.
    private let lineStart: Int
    /// Bytes, the line feed included.
    let lineLength: Int

    /// Gives an entry its number and prints its record. O(its length).
    init(_ entry: IndexEntry, number: UInt64) {
        // Here, so that it is copied once.
        self.entry = entry
        self.entry.file = FileID(number)
        self.entry.change = number
        var printer = RecordPrinter(reserving: 384 + entry.keyText.utf8.count)
        JournalFormat.append(self.entry, to: &printer)
        lineLength = printer.count
        EntryFile.appendTrailer(to: &printer, recordLength: lineLength - 1, life: entry.life, change: number)
        self.printer = printer
        lineStart = 0
    }

    /// The same for an entry in a segment, with its bytes there: header, payload and record. O(their length).
    ///
    /// `number`: nil for an entry that is moved, and keeps its own. `place` returns a place for so many bytes, and the
    /// salt of the segment; nil when there is none.
    init?<Failure: Error>(
        _ entry: IndexEntry, number: UInt64?, _ payload: UnsafeRawBufferPointer,
        _ place: (_ span: Int) throws(Failure) -> (Place, salt: UInt64)?
    ) throws(Failure) {
        self.entry = entry
        self.entry.file = FileID(number ?? entry.file.number)
        self.entry.change = number ?? entry.change
        let start = SegmentFormat.entryHeaderLength + payload.count
        var printer = RecordPrinter(reserving: start + 384 + entry.keyText.utf8.count)
        printer.appendZeros(SegmentFormat.entryHeaderLength)
        printer.append(payload)
        printer.append("\n")
        let recordLength = printer.beginSet(self.entry)
        guard let (place, salt) = try place(SegmentFormat.span(payload: payload.count, record: recordLength)) else {
            return nil
        }
        self.entry.file.place = place
        printer.endSet(place)
        let check = printer.hashOfLast(recordLength, seed: UInt64(recordLength))
        printer.writeHeader(
            SegmentFormat.entryHeader(self.entry, recordLength: recordLength, recordCheck: check, salt: salt))
        self.printer = printer
        lineStart = start
        lineLength = recordLength + 1
    }

    /// The line of the journal. Valid as long as this value.
    var line: UnsafeRawBufferPointer { printer.printed.part(lineStart..<lineStart + lineLength) }

    /// The bytes in a segment. Valid as long as this value.
    var bytesInSegment: UnsafeRawBufferPointer { printer.printed }

    /// The footer of the file. Valid as long as this value.
    var footer: UnsafeRawBufferPointer { printer.printed.part(1..<printer.count) }
}
