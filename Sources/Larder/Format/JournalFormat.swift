/// The format of a journal: a header, then every change, one record per line, only ever appended.
///
///     {"larder":1,"g":1,"n":0,"c":"…"}
///     {"k":"a/b","n":1,"s":1763632800000,"e":1763719200000,"t":86400000,"z":5,"h":"…","c":"…"}
///     {"o":"remove","k":"a/b","n":2,"c":"…"}
///     {"o":"closed","n":2,"c":"…"}
///
/// A record *begins* with its line feed, so that a torn line cannot swallow the next one; the last line has none.
/// `closed` is cut off again before the next session's first change: it is only ever the last record.
enum JournalFormat {
    /// Prints the first line of a journal.
    static func header(generation: UInt64, last: UInt64) -> [UInt8] {
        var printer = RecordPrinter(reserving: 96)
        printer.append(.header(version: Record.version, generation: generation, last: last))
        return printer.bytes
    }

    /// Prints records, each behind its line feed.
    static func lines(_ records: Record...) -> [UInt8] {
        var printer = RecordPrinter(reserving: 256)
        for record in records { append(record, to: &printer) }
        return printer.bytes
    }

    static func append(_ entry: IndexEntry, to printer: inout RecordPrinter) {
        printer.append("\n")
        printer.append(entry)
    }

    static func append(_ record: Record, to printer: inout RecordPrinter) {
        printer.append("\n")
        printer.append(record)
    }
}
