import LarderFiles

/// Prints records, byte by byte, into one growing buffer.
struct RecordPrinter {
    private(set) var bytes: [UInt8] = []
    private var start = 0

    init(reserving capacity: Int = 0) {
        bytes.reserveCapacity(capacity)
    }

    /// Prints one record, without a line end. O(its length).
    mutating func append(_ record: Record) {
        start = bytes.count
        switch record {
        case .header(let version, let generation, let last):
            integer(#"{"larder":"#, version)
            integer(#","g":"#, generation)
            integer(#","n":"#, last)
        case .set(let row):
            set(row)
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
        case .used(let key, let file, let change, let used, let expires):
            operation(.used, key: key)
            integer(#","f":"#, file)
            integer(#","n":"#, change)
            integer(#","u":"#, used.milliseconds)
            limited(#","e":"#, expires.milliseconds)
        case .clear(let scope, let number):
            operation(.clear)
            switch scope {
            case .everything: break
            case .namespace(let space): namespace(space)
            case .tag(let tag):
                namespace(tag.namespace)
                tags([tag])
            }
            integer(#","n":"#, number)
        case .closed(let number):
            operation(.closed)
            integer(#","n":"#, number)
        case .unknown:
            preconditionFailure("a record of an unknown operation is read, never printed")
        }
        check()
    }

    mutating func append(_ text: StaticString) {
        bytes.append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    mutating func append(_ more: some Collection<UInt8>) {
        bytes.append(contentsOf: more)
    }

    mutating func append(littleEndian value: UInt64) {
        withUnsafeBytes(of: value.littleEndian) { bytes.append(contentsOf: $0) }
    }

    /// The hash of the last `count` bytes.
    func hashOfLast(_ count: Int, seed: UInt64) -> UInt64 {
        bytes.withUnsafeBytes { XXH64.hash(UnsafeRawBufferPointer(rebasing: $0.suffix(count)), seed: seed) }
    }

    mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
    }

    private mutating func set(_ row: Row) {
        append(#"{"k":"#)
        string(row.key)
        if let attachments = row.attachments { namespace(attachments.traits.namespace) }
        integer(#","n":"#, row.file)
        if row.change != row.file { integer(#","l":"#, row.change) }
        integer(#","s":"#, row.stored.milliseconds)
        life(row.life)
        if row.used != row.stored { integer(#","u":"#, row.used.milliseconds) }
        integer(#","z":"#, row.size)
        append(#","h":""#)
        hex(row.checksum)
        append(#"""#)
        guard let attachments = row.attachments else { return }
        if !attachments.metadata.isEmpty { metadata(attachments.metadata) }
        traits(attachments.traits)
        append(attachments.unknown)
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

    private mutating func operation(_ operation: Record.Operation, key: Key? = nil) {
        append(#"{"o":""#)
        append(operation.rawValue.utf8)
        append(#"""#)
        guard let key else { return }
        append(#","k":"#)
        string(key.text)
        namespace(key.namespace)
    }

    private mutating func check() {
        let check = bytes.withUnsafeBytes { XXH64.hash(UnsafeRawBufferPointer(rebasing: $0[start...])) }
        append(#","c":""#)
        hex(check)
        append(#""}"#)
    }

    /// Leaves the field out when it says "no limit".
    private mutating func limited(_ name: StaticString, _ value: Int64) {
        if value != Life.unlimited { integer(name, value) }
    }

    private mutating func integer(_ name: StaticString, _ value: some FixedWidthInteger) {
        append(name)
        if value < 0 { bytes.append(UInt8(ascii: "-")) }
        var rest = UInt64(value.magnitude)
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { digits in
            var first = 20
            repeat {
                first -= 1
                digits[first] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
                rest /= 10
            } while rest > 0
            bytes.append(contentsOf: UnsafeMutableBufferPointer(rebasing: digits[first...]))
        }
    }

    private mutating func hex(_ value: UInt64) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 16) { digits in
            for position in 0..<16 { digits[position] = Self.digit(value &>> UInt64(60 - 4 * position)) }
            bytes.append(contentsOf: digits)
        }
    }

    /// Escapes what JSON demands and nothing more: quotes, backslashes, control characters.
    private mutating func string(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        let isPlain = text.utf8.withContiguousStorageIfAvailable { text in
            let isPlain = text.allSatisfy { $0 >= 0x20 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
            if isPlain { bytes.append(contentsOf: text) }
            return isPlain
        }
        if isPlain != true { escaped(text) }
        bytes.append(UInt8(ascii: "\""))
    }

    private mutating func escaped(_ text: String) {
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                bytes.append(UInt8(ascii: "\\"))
                bytes.append(byte)
            case 0..<0x20:
                append(#"\u00"#)
                bytes.append(Self.digit(UInt64(byte >> 4)))
                bytes.append(Self.digit(UInt64(byte)))
            default:
                bytes.append(byte)
            }
        }
    }

    /// The hex digit of the lowest four bits.
    private static func digit(_ value: UInt64) -> UInt8 {
        let low = UInt8(truncatingIfNeeded: value & 15)
        return low < 10 ? UInt8(ascii: "0") + low : UInt8(ascii: "a") - 10 + low
    }
}
