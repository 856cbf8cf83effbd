import LarderFiles

/// What tells of a new entry: the line of the journal, and the footer of the file. They share the record, which is printed once.
struct EntryText: ~Copyable {
    private let printer: RecordPrinter
    /// Bytes, the line feed included.
    let lineLength: Int

    /// Prints the record of a row. O(its length).
    init(_ row: Row) {
        var printer = RecordPrinter(reserving: 384 + row.key.utf8.count)
        JournalFormat.append(row, to: &printer)
        lineLength = printer.count
        EntryFile.appendTrailer(to: &printer, recordLength: lineLength - 1, life: row.life, change: row.change)
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
