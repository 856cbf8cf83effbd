import LarderFiles

/// Prints records byte by byte into one growing buffer.
struct RecordPrinter: ~Copyable {
    private var text: ByteBuffer
    private var start = 0

    init(reserving capacity: Int = 256) {
        text = ByteBuffer(reserving: capacity)
    }

    var count: Int { text.count }

    /// A copy of everything printed.
    var bytes: [UInt8] { text.withBytes { Array($0) } }

    /// The printed bytes. Valid until more are printed, and as long as the printer.
    var printed: UnsafeRawBufferPointer { text.bytes }

    /// Calls `body` with everything printed.
    func withBytes<Result, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try text.withBytes(body)
    }

    /// Prints one record, without a line end. O(its length).
    mutating func append(_ record: Record) {
        start = count
        switch record {
        case .header(let version, let generation, let last, let boot):
            integer(#"{"larder":"#, version)
            integer(#","g":"#, generation)
            integer(#","n":"#, last)
            if let boot { hex(#","bt":""#, boot) }
        case .set(let entry):
            return append(entry)
        case .remove(let key, let number):
            operation(.remove, key: key)
            integer(#","n":"#, number)
        case .life(let key, let file, let change, let life, let update):
            operation(.life, key: key)
            integer(#","f":"#, file)
            integer(#","n":"#, change)
            self.life(life)
            if let update {
                metadata(update.metadata)
                integer(#","ks":"#, update.keptStale)
            }
        case .used(let key, let file, let change, let used, let decision, let expires):
            operation(.used, key: key)
            integer(#","f":"#, file)
            integer(#","n":"#, change)
            integer(#","u":"#, used.milliseconds)
            if let decision {
                rank(decision.rank)
                integer(#","l":"#, decision.number)
            }
            limited(#","e":"#, expires.milliseconds)
        case .clear(let scope, let number):
            operation(.clear)
            self.scope(scope)
            integer(#","n":"#, number)
        case .expire(let scope, let number, let time):
            operation(.life)
            self.scope(scope)
            integer(#","n":"#, number)
            integer(#","e":"#, time.milliseconds)
        case .obsolete(let file, let key):
            operation(.obsolete, key: key)
            integer(#","f":"#, file.number)
            place(file.place)
        case .closed(let number, let totals):
            operation(.closed)
            integer(#","n":"#, number)
            if let totals { self.totals(totals) }
        case .groups(let table):
            groups(table)
        case .unknown:
            preconditionFailure("a record of an unknown operation is read, never printed")
        }
        check()
    }

    /// Prints the record of an entry. O(its length).
    mutating func append(_ entry: IndexEntry) {
        start = count
        set(entry)
        check()
    }

    /// Prints the record of an entry in a segment up to its place, which must be known to go on. Returns the length of
    /// the whole record.
    mutating func beginSet(_ entry: IndexEntry) -> Int {
        start = count
        set(entry)
        return count - start + Self.placeLength + RecordScanner.checkLength
    }

    mutating func endSet(_ place: Place) {
        self.place(place)
        check()
    }

    /// `,"w":"`, 16 hex digits and a quote.
    private static let placeLength = 23

    mutating func appendZeros(_ count: Int) {
        for _ in 0..<count / 8 { text.append(littleEndian: 0) }
    }

    mutating func append(_ bytes: UnsafeRawBufferPointer) {
        text.append(bytes.bindMemory(to: UInt8.self))
    }

    /// Overwrites the first bytes.
    mutating func writeHeader<Words: BitwiseCopyable>(_ words: Words) {
        text.overwriteStart(words)
    }

    mutating func append(_ text: StaticString) {
        self.text.append(text)
    }

    mutating func append(_ bytes: [UInt8]) {
        bytes.withUnsafeBufferPointer { text.append($0) }
    }

    mutating func append(littleEndian value: UInt64) {
        text.append(littleEndian: value)
    }

    /// The hash of the last `count` bytes.
    func hashOfLast(_ count: Int, seed: UInt64) -> UInt64 {
        text.withBytes(from: self.count - count) { XXH64.hash($0, seed: seed) }
    }

    mutating func removeAll() {
        text.removeAll()
    }

    private mutating func set(_ entry: IndexEntry) {
        append(#"{"k":"#)
        string(entry.keyText)
        if let attachments = entry.attachments { namespace(attachments.traits.namespace) }
        integer(#","n":"#, entry.file.number)
        if entry.change != entry.file.number { integer(#","l":"#, entry.change) }
        integer(#","s":"#, entry.stored.milliseconds)
        life(entry.life)
        if entry.used != entry.stored { integer(#","u":"#, entry.used.milliseconds) }
        rank(entry.rank)
        integer(#","z":"#, entry.size)
        hex(#","h":""#, entry.checksum)
        if let attachments = entry.attachments {
            if !attachments.metadata.isEmpty { metadata(attachments.metadata) }
            traits(attachments.traits)
            append(attachments.unknown)
        }
        place(entry.file.place)
    }

    private mutating func place(_ place: Place) {
        if place.isInSegment { hex(#","w":""#, place.packed) }
    }

    private mutating func rank(_ rank: Rank) {
        if rank != Rank() { integer(#","r":"#, UInt64(rank.packed)) }
    }

    private mutating func life(_ life: Life) {
        limited(#","e":"#, life.expires.milliseconds)
        limited(#","t":"#, life.ttl)
    }

    private mutating func metadata(_ metadata: [String: String]) {
        append(#","m":{"#)
        var separator: StaticString = ""
        for (name, value) in metadata.sorted(by: { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }) {
            append(separator)
            string(name)
            append(":")
            string(value)
            separator = ","
        }
        append("}")
    }

    private mutating func traits(_ traits: Attachments.Traits) {
        if !traits.tags.isEmpty { tags(traits.tags) }
        if traits.keptStale > 0 { integer(#","ks":"#, traits.keptStale) }
        if traits.isAbsent { append(#","ab":1"#) }
        if traits.mustRevalidate { append(#","mr":1"#) }
        if let coding = traits.coding {
            append(#","cd":"#)
            string(coding.name)
        }
    }

    private mutating func tags(_ tags: [Key]) {
        append(#","tg":["#)
        var separator: StaticString = ""
        for tag in tags {
            append(separator)
            string(tag.text)
            separator = ","
        }
        append("]")
    }

    private mutating func namespace(_ namespace: Namespace) {
        if namespace == .none { return }
        append(#","ns":"#)
        string(namespace.name)
    }

    private mutating func scope(_ scope: ClearScope) {
        switch scope {
        case .everything: break
        case .namespace(let whole) where whole.isNone: append(#","ns":"""#)
        case .namespace(let whole): namespace(whole)
        case .tag(let tag):
            namespace(tag.namespace)
            tags([tag])
        }
    }

    private mutating func operation(_ operation: Record.Operation, key: Key? = nil) {
        append(#"{"o":""#)
        var name = operation.rawValue
        name.withUTF8 { text.append($0) }
        append(#"""#)
        guard let key else { return }
        append(#","k":"#)
        string(key.text)
        namespace(key.namespace)
    }

    private mutating func groups(_ table: GroupTable) {
        operation(.groups)
        integer(#","g":"#, table.generation)
        hex(#","sd":""#, table.seed)
        integer(#","at":"#, table.start)
        append(#","gr":["#)
        var separator: StaticString = "["
        for group in table.groups {
            integer(separator, group.length)
            sums(group.totals)
            time(group.earliest)
            time(group.latest)
            hex(#",""#, group.check)
            append("]")
            separator = ",["
        }
        append("]")
        if let namespaces = table.namespaces { self.namespaces(namespaces) }
        if !table.journals.isEmpty { journals(table.journals) }
        if table.settled > 0 { integer(#","n":"#, table.settled) }
    }

    private mutating func journals(_ journals: [JournalPart]) {
        append(#","jr":["#)
        var separator: StaticString = "["
        for journal in journals {
            integer(separator, journal.generation)
            integer(",", journal.length)
            append("]")
            separator = ",["
        }
        append("]")
    }

    private mutating func totals(_ totals: SavedTotals) {
        integer(#","to":["#, totals.whole.count)
        integer(",", totals.whole.size)
        integer(",", totals.whole.allocatedSize)
        append("]")
        if let namespaces = totals.namespaces { self.namespaces(namespaces) }
    }

    private mutating func namespaces(_ namespaces: [Namespace: EntryTotals]) {
        append(#","nt":["#)
        var separator: StaticString = "["
        for (namespace, totals) in namespaces.sorted(by: { $0.key.name < $1.key.name }) {
            append(separator)
            string(namespace.name)
            sums(totals)
            append("]")
            separator = ",["
        }
        append("]")
    }

    private mutating func sums(_ totals: EntryTotals) {
        integer(",", totals.count)
        integer(",", totals.size)
        integer(",", totals.allocatedSize)
    }

    private mutating func time(_ time: Timestamp?) {
        if let time { integer(",", time.milliseconds) } else { append(",null") }
    }

    private mutating func check() {
        let check = text.withBytes(from: start) { XXH64.hash($0) }
        append(#","c":""#)
        text.append(hex: check)
        append(#""}"#)
    }

    @inline(__always)
    private mutating func hex(_ name: StaticString, _ value: UInt64) {
        append(name)
        text.append(hex: value)
        append(#"""#)
    }

    /// Omits the field when there is no limit.
    private mutating func limited(_ name: StaticString, _ value: Int64) {
        if value != Life.unlimited { integer(name, value) }
    }

    @inline(__always)
    private mutating func integer(_ name: StaticString, _ value: some FixedWidthInteger) {
        append(name)
        if value < 0 { text.append(UInt8(ascii: "-")) }
        text.append(decimal: UInt64(value.magnitude))
    }

    /// Escapes only the bytes that JSON requires: quotes, backslashes, control characters.
    private mutating func string(_ string: String) {
        text.append(UInt8(ascii: "\""))
        let isPlain = string.utf8.withContiguousStorageIfAvailable { bytes in
            let isPlain = Self.isPlain(bytes)
            if isPlain { text.append(bytes) }
            return isPlain
        }
        if isPlain != true { escaped(string) }
        text.append(UInt8(ascii: "\""))
    }

    /// True when there is no quote, no backslash and no control character. Checks eight bytes at a time.
    private static func isPlain(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        guard bytes.count >= 8, let start = UnsafeRawPointer(bytes.baseAddress) else {
            return bytes.allSatisfy { $0 >= 0x20 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
        }
        let (ones, high): (UInt64, UInt64) = (0x0101_0101_0101_0101, 0x8080_8080_8080_8080)
        func special(_ word: UInt64) -> UInt64 {
            let quotes = word ^ ones &* UInt64(UInt8(ascii: "\""))
            let backslashes = word ^ ones &* UInt64(UInt8(ascii: "\\"))
            // A borrow may mark one more byte above a true hit, but it never marks a byte without a hit.
            let below =
                (word &- ones &* 0x20) & ~word | (quotes &- ones) & ~quotes | (backslashes &- ones) & ~backslashes
            return below & high
        }
        var found: UInt64 = 0
        for position in stride(from: 0, to: bytes.count - 8, by: 8) {
            found |= special(start.loadUnaligned(fromByteOffset: position, as: UInt64.self))
        }
        return found | special(start.loadUnaligned(fromByteOffset: bytes.count - 8, as: UInt64.self)) == 0
    }

    private mutating func escaped(_ string: String) {
        for byte in string.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                text.append(UInt8(ascii: "\\"))
                text.append(byte)
            case 0..<0x20:
                append(#"\u00"#)
                text.append(UInt8(ascii: "0") + byte / 16)
                text.append(byte % 16 < 10 ? UInt8(ascii: "0") + byte % 16 : UInt8(ascii: "a") - 10 + byte % 16)
            default:
                text.append(byte)
            }
        }
    }
}
