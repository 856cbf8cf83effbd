import LarderFiles

/// A row that has got its number, and what tells of it: the line of the journal, and the footer of the file. They share the record,
/// which is printed once.
struct NewEntry: ~Copyable {
    let row: Row
    private let printer: RecordPrinter
    /// Bytes, the line feed included.
    let lineLength: Int

    /// Gives a row its number and prints its record. O(its length).
    init(_ row: Row, number: UInt64) {
        var row = row
        row.file = number
        row.change = number
        var printer = RecordPrinter(reserving: 384 + row.key.utf8.count)
        JournalFormat.append(row, to: &printer)
        lineLength = printer.count
        EntryFile.appendTrailer(to: &printer, recordLength: lineLength - 1, life: row.life, change: row.change)
        self.row = row
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
