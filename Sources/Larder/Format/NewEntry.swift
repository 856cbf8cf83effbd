import LarderFiles

/// A entry that has got its number, and what tells of it: the line of the journal, and the footer of the file. They share the record,
/// which is printed once.
struct NewEntry: ~Copyable {
    let entry: IndexEntry
    private let printer: RecordPrinter
    /// Bytes, the line feed included.
    let lineLength: Int

    /// Gives a entry its number and prints its record. O(its length).
    init(_ entry: IndexEntry, number: UInt64) {
        var entry = entry
        entry.file = number
        entry.change = number
        var printer = RecordPrinter(reserving: 384 + entry.keyText.utf8.count)
        JournalFormat.append(entry, to: &printer)
        lineLength = printer.count
        EntryFile.appendTrailer(to: &printer, recordLength: lineLength - 1, life: entry.life, change: entry.change)
        self.entry = entry
        self.printer = printer
    }

    func withLine<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try printer.withBytes { bytes throws(Failure) in try body(bytes.part(0..<lineLength)) }
    }

    func withFooter<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try printer.withBytes { bytes throws(Failure) in try body(bytes.part(1..<bytes.count)) }
    }
}
