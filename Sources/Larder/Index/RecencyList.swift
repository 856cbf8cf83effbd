import LarderFiles

/// Slots in the order of their last use; 16 bytes a slot.
///
/// Each place carries a stamp, taken from a counter that all shards share, so that the order holds across them.
struct RecencyList: Sendable {
    private let counter: AccessCounter
    private var order = SlotList()
    private var stamps: [UInt64] = []

    init(counting counter: AccessCounter) {
        self.counter = counter
    }

    /// The slot whose use is longest ago.
    var oldest: Int? { order.oldest }

    /// The slot that was used next after this one.
    func newer(than slot: Int) -> Int? { order.newer(than: slot) }

    func stamp(of slot: Int) -> UInt64 { stamps[slot] }

    /// Puts a slot in that is not there, as the one used last. O(1) amortised.
    mutating func append(_ slot: Int, at time: Timestamp) {
        append(slot, stamp: counter.next(at: time))
    }

    /// The same for uses of the past, which come in their order.
    mutating func load(_ slot: Int, usedAt time: Timestamp) {
        append(slot, stamp: counter.stamp(of: time))
    }

    /// Notes a use. O(1).
    mutating func touch(_ slot: Int, at time: Timestamp) {
        stamps[slot] = counter.next(at: time)
        order.moveToEnd(slot)
    }

    /// Takes a slot out. O(1).
    mutating func remove(_ slot: Int) {
        order.remove(slot)
    }

    private mutating func append(_ slot: Int, stamp: UInt64) {
        while stamps.count <= slot { stamps.append(0) }
        stamps[slot] = stamp
        order.append(slot)
    }
}

/// Numbers the uses of a cache in their order: the time in milliseconds, and within one a count.
final class AccessCounter: Sendable {
    private static let countBits: UInt64 = 16
    /// Some year 4200; a later time in a file is no reason to run out of numbers.
    private static let latest: Int64 = 1 << 46

    private let last = Lock<UInt64>(0)

    /// Returns a number above all before.
    func next(at time: Timestamp) -> UInt64 {
        let base = Self.base(time)
        return last.withLock { last in
            last = max(last + 1, base)
            return last
        }
    }

    /// Returns the number of a use of the past; what comes next is above it.
    func stamp(of time: Timestamp) -> UInt64 {
        let base = Self.base(time)
        last.withLock { $0 = max($0, base) }
        return base
    }

    /// True when the clock has been set back since numbers were taken, by more than two boots may differ.
    func isAhead(of now: Timestamp) -> Bool {
        last.withLock { $0 } > Self.base(now.advanced(byMilliseconds: Life.clockTolerance)) | Self.counts
    }

    /// Begins anew at `now`, after the clock has been set back. Every place in an order needs a new number then.
    func restart(at now: Timestamp) {
        last.withLock { $0 = Self.base(now) }
    }

    private static let counts: UInt64 = 1 << countBits - 1

    private static func base(_ time: Timestamp) -> UInt64 {
        UInt64(min(max(time.milliseconds, 0), latest)) << countBits
    }
}
