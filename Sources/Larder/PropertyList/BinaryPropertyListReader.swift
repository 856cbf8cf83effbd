import LarderFiles
import LarderFoundation

extension PropertyList {
    /// Reads a binary or an XML list; nil when it is neither, is damaged, or refers to more than `mostObjects` objects.
    /// O(n).
    init?(_ data: Data, mostObjects: Int = .max) {
        let list = data.withUnsafeBytes { bytes in
            bytes.has("bplist00", at: 0)
                ? BinaryPropertyListReader.read(bytes, mostObjects: mostObjects) : XMLPropertyListReader.read(bytes)
        }
        guard let list else { return nil }
        self = list
    }
}

/// Reads the binary format: objects, a table of their offsets, and a trailer of 32 bytes with the table's location.
///
/// Source: the comment at the head of https://github.com/apple-oss-distributions/CF/blob/main/CFBinaryPList.c.
/// Every offset and length is checked. Lists that contain themselves, or contain one another too often, are rejected.
struct BinaryPropertyListReader {
    private static let headerLength = 8
    private static let trailerLength = 32

    private let bytes: UnsafeRawBufferPointer
    /// The offset at which the objects end and the table begins.
    private let table: Int
    private let offsetWidth: Int
    private let referenceWidth: Int
    private let count: Int
    /// The remaining budget for objects, references to objects, and bytes of text. A genuine list has no more of each
    /// than it has bytes.
    private var budget: Int
    /// The remaining number of references to objects: each one takes memory.
    private var objects: Int
    /// Texts by their offsets. Each is read once, no matter how often it is referred to.
    private var texts: [Int: PropertyList] = [:]

    static func read(_ bytes: UnsafeRawBufferPointer, mostObjects: Int) -> PropertyList? {
        guard bytes.count >= headerLength + trailerLength else { return nil }
        let trailer = bytes.count - trailerLength
        guard let count = integer(bytes, at: trailer + 8, width: 8),
            let top = integer(bytes, at: trailer + 16, width: 8), let table = integer(bytes, at: trailer + 24, width: 8)
        else { return nil }
        let offsetWidth = Int(bytes[trailer + 6])
        let referenceWidth = Int(bytes[trailer + 7])
        guard (1...8).contains(offsetWidth), (1...8).contains(referenceWidth), table >= headerLength, table <= trailer,
            count <= (trailer - table) / offsetWidth
        else { return nil }
        var reader = BinaryPropertyListReader(
            bytes: bytes, table: table, offsetWidth: offsetWidth, referenceWidth: referenceWidth, count: count,
            mostObjects: mostObjects)
        return reader.object(top, depth: 0)
    }

    private init(
        bytes: UnsafeRawBufferPointer, table: Int, offsetWidth: Int, referenceWidth: Int, count: Int, mostObjects: Int
    ) {
        self.bytes = bytes
        self.table = table
        self.offsetWidth = offsetWidth
        self.referenceWidth = referenceWidth
        self.count = count
        budget = 3 * bytes.count
        objects = mostObjects
    }

    /// Spends from the budget; false when it is exhausted.
    private mutating func spend(_ amount: Int) -> Bool {
        budget -= amount
        return budget >= 0
    }

    private mutating func object(_ number: Int, depth: Int) -> PropertyList? {
        objects -= 1
        guard objects >= 0, number < count, depth < PropertyList.deepest, spend(1),
            let offset = Self.integer(bytes, at: table + number * offsetWidth, width: offsetWidth),
            offset >= Self.headerLength, offset < table
        else { return nil }
        let marker = bytes[offset]
        switch marker >> 4 {
        case 0x0: return marker == 0x08 || marker == 0x09 ? .boolean(marker == 0x09) : nil
        case 0x1: return integer(at: offset + 1, width: 1 << Int(marker & 15))
        case 0x2: return real(at: offset + 1, width: 1 << Int(marker & 15)).map(PropertyList.real)
        case 0x3: return marker == 0x33 ? date(at: offset + 1) : nil
        case 0x4, 0x5, 0x6: return text(marker, at: offset)
        case 0x8: return reference(at: offset + 1, width: Int(marker & 15) + 1)
        case 0xA: return array(marker, at: offset, depth)
        case 0xD: return dictionary(marker, at: offset, depth)
        default: return nil
        }
    }

    /// A big-endian number of up to eight bytes; nil when it does not fit into an `Int` or is out of bounds.
    private static func integer(_ bytes: UnsafeRawBufferPointer, at offset: Int, width: Int) -> Int? {
        guard offset >= 0, offset <= bytes.count - width else { return nil }
        let value = bytes.part(offset..<offset + width).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        return Int(exactly: value)
    }

    private func word(at offset: Int, width: Int) -> UInt64? {
        guard offset <= table - width else { return nil }
        return bytes.part(offset..<offset + width).reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// Integers of one, two and four bytes are unsigned, those of eight are signed; sixteen bytes hold larger ones.
    private func integer(at offset: Int, width: Int) -> PropertyList? {
        switch width {
        case 1, 2, 4:
            return word(at: offset, width: width).flatMap { Int(exactly: $0) }.map(PropertyList.integer)
        case 8:
            return word(at: offset, width: 8).map { .integer(Int(truncatingIfNeeded: Int64(bitPattern: $0))) }
        case 16:
            guard let high = word(at: offset, width: 8), let low = word(at: offset + 8, width: 8) else { return nil }
            if high == 0 { return Int(exactly: low).map(PropertyList.integer) ?? .large(low) }
            let signed = Int64(bitPattern: low)
            return high == .max && signed < 0 ? .integer(Int(truncatingIfNeeded: signed)) : nil
        default:
            return nil
        }
    }

    private func real(at offset: Int, width: Int) -> Double? {
        switch width {
        case 4: word(at: offset, width: 4).map { Double(Float(bitPattern: UInt32(truncatingIfNeeded: $0))) }
        case 8: word(at: offset, width: 8).map { Double(bitPattern: $0) }
        default: nil
        }
    }

    private func date(at offset: Int) -> PropertyList? {
        real(at: offset, width: 8).map { .date(Date(timeIntervalSinceReferenceDate: $0)) }
    }

    private func reference(at offset: Int, width: Int) -> PropertyList? {
        guard width <= 8 else { return nil }
        return word(at: offset, width: width).flatMap { Int(exactly: $0) }.map(PropertyList.reference)
    }

    /// The start and the length of the content. The length is in the marker or, if it does not fit, in the integer that
    /// follows.
    private func extent(_ marker: UInt8, at offset: Int) -> (start: Int, count: Int)? {
        if marker & 15 != 15 { return (offset + 1, Int(marker & 15)) }
        guard offset + 1 < table, bytes[offset + 1] >> 4 == 1 else { return nil }
        let width = 1 << Int(bytes[offset + 1] & 15)
        guard width <= 8, let count = word(at: offset + 2, width: width).flatMap({ Int(exactly: $0) }) else {
            return nil
        }
        return (offset + 2 + width, count)
    }

    private mutating func text(_ marker: UInt8, at offset: Int) -> PropertyList? {
        if let known = texts[offset] { return known }
        let unit = marker >> 4 == 6 ? 2 : 1
        guard let (start, count) = extent(marker, at: offset), start <= table, count <= (table - start) / unit,
            spend(count * unit)
        else { return nil }
        let content = bytes.part(start..<start + count * unit)
        let list: PropertyList =
            switch marker >> 4 {
            case 4: .data(Data(content))
            case 5: .string(String(decoding: content, as: UTF8.self))
            default:
                .string(
                    String(
                        decoding: (0..<count).map { UInt16(content[2 * $0]) << 8 | UInt16(content[2 * $0 + 1]) },
                        as: UTF16.self))
            }
        texts[offset] = list
        return list
    }

    private mutating func references(_ count: Int, at start: Int) -> [Int]? {
        guard count <= objects, start <= table, count <= (table - start) / referenceWidth, spend(count) else {
            return nil
        }
        var references: [Int] = []
        references.reserveCapacity(count)
        for position in 0..<count {
            guard let number = Self.integer(bytes, at: start + position * referenceWidth, width: referenceWidth) else {
                return nil
            }
            references.append(number)
        }
        return references
    }

    private mutating func array(_ marker: UInt8, at offset: Int, _ depth: Int) -> PropertyList? {
        guard let (start, count) = extent(marker, at: offset), let numbers = references(count, at: start) else {
            return nil
        }
        var elements: [PropertyList] = []
        for number in numbers {
            guard let element = object(number, depth: depth + 1) else { return nil }
            elements.append(element)
        }
        return .array(elements)
    }

    private mutating func dictionary(_ marker: UInt8, at offset: Int, _ depth: Int) -> PropertyList? {
        guard let (start, count) = extent(marker, at: offset), let keys = references(count, at: start),
            let values = references(count, at: start + count * referenceWidth)
        else { return nil }
        var pairs: [PropertyList.Pair] = []
        for (key, value) in zip(keys, values) {
            guard case .string(let key)? = object(key, depth: depth + 1), let value = object(value, depth: depth + 1)
            else { return nil }
            pairs.append(PropertyList.Pair(key: key, value: value))
        }
        return .dictionary(pairs)
    }
}
