/// The fingerprints of the keys that a cache has evicted not long ago: whether its main part *refused* them or *gave
/// them up*, and how many others have left since.
///
/// It is a table of small buckets, two cells of four bytes for each entry of the cache. A cell has 24 bits of the
/// fingerprint, a bit for the way out, and the time in 7 bits. The last key is in the first cell of a bucket; the one
/// in the last cell is forgotten. A false answer does little harm: two keys may share a cell, and the time of a cell
/// that is never overwritten begins again.
@usableFromInline
struct EvictionHistory: Sendable {
    @usableFromInline
    enum Way: UInt32, Sendable {
        case refused, givenUp
    }

    private static let cellsPerBucket = 4
    /// Time is counted in departures. As many as the cache has entries take at most so many steps.
    private static let steps = 32

    private var cells: ContiguousArray<UInt32> = []
    private var bucketCount: UInt64 = 0
    /// The entries of the cache that the table is made for.
    private(set) var capacity = 0
    private var fitting = 0...0
    private var departuresPerStep = 1
    private var departures = 0
    private var step: UInt32 = 0

    /// How long a key is remembered, in steps: a refused one for as many departures as there are entries, and one
    /// that was given up for half as many again.
    private func memory(of way: Way) -> UInt32 {
        let steps = UInt32(capacity / departuresPerStep)
        return way == .refused ? steps : steps + steps / 2
    }

    @usableFromInline
    init() {}

    /// The memory of the table.
    var bytes: Int { cells.count * 4 }

    /// The saved form: some numbers, and the cells.
    var saved: (numbers: [UInt64], cells: ContiguousArray<UInt32>) {
        ([UInt64(capacity), UInt64(departures), UInt64(step)], cells)
    }

    /// Nil when that is not the history of a cache.
    init?(numbers: [UInt64], cells: ContiguousArray<UInt32>) {
        guard numbers.count == 3, numbers[0] <= UInt64(cells.count), numbers[2] < 128 else { return nil }
        if cells.isEmpty { return }
        fit(Int(numbers[0]))
        guard cells.count == self.cells.count, numbers[1] < UInt64(departuresPerStep) else { return nil }
        self.cells = cells
        departures = Int(numbers[1])
        step = UInt32(numbers[2])
    }

    /// Makes room for the history of so many entries. Where their number has changed a lot, the history is forgotten.
    /// O(1), except then.
    mutating func fit(_ entries: Int) {
        if fitting.contains(entries) { return }
        capacity = max(1, entries)
        fitting = capacity - capacity / 4...capacity + capacity / 2
        let buckets = (2 * capacity + Self.cellsPerBucket - 1) / Self.cellsPerBucket
        bucketCount = UInt64(buckets)
        cells = ContiguousArray(repeating: 0, count: buckets * Self.cellsPerBucket)
        departuresPerStep = (capacity + Self.steps - 1) / Self.steps
        departures = 0
        step = 0
    }

    /// Remembers a key. O(1).
    mutating func add(_ fingerprint: UInt32, _ way: Way) {
        let (bucket, tag) = place(of: fingerprint)
        let step = step
        cells.withUnsafeMutableBufferPointer { cells in
            for cell in (bucket &+ 1..<bucket &+ Self.cellsPerBucket).reversed() { cells[cell] = cells[cell &- 1] }
            cells[bucket] = tag | way.rawValue << 7 | step
        }
        departures &+= 1
        if departures >= departuresPerStep {
            departures = 0
            self.step = (step &+ 1) & 127
        }
    }

    /// Forgets a key, and returns how it has left if it is still remembered. O(1).
    mutating func take(_ fingerprint: UInt32) -> Way? {
        if bucketCount == 0 { return nil }
        let (bucket, tag) = place(of: fingerprint)
        let match = cells.withUnsafeBufferPointer { cells in
            for cell in bucket..<bucket &+ Self.cellsPerBucket where cells[cell] & ~255 == tag { return cell }
            return -1
        }
        if match < 0 { return nil }
        let found = cells[match]
        let last = bucket &+ Self.cellsPerBucket &- 1
        for cell in match..<last { cells[cell] = cells[cell &+ 1] }
        cells[last] = 0
        let way = found & 128 == 0 ? Way.refused : .givenUp
        return (step &- found) & 127 <= memory(of: way) ? way : nil
    }

    /// The higher half decides on the bucket.
    static func mixed(_ fingerprint: UInt32) -> UInt64 { UInt64(fingerprint) &* 0x9E37_79B9_7F4A_7C15 }

    /// The first cell of the bucket, and the bits of the fingerprint in a cell, which are not all zero.
    private func place(of fingerprint: UInt32) -> (bucket: Int, tag: UInt32) {
        let mixed = Self.mixed(fingerprint)
        let bucket = Int(((mixed >> 32) &* bucketCount) >> 32) &* Self.cellsPerBucket
        return (bucket, max(UInt32(truncatingIfNeeded: mixed) & ~255, 256))
    }
}
