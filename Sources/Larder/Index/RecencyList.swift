import LarderFiles

/// Slots in the order of their last use; 16 bytes per slot.
///
/// Each use has a stamp from a counter that all shards share, so the order holds across shards.
struct RecencyList: Sendable {
    private let counter: AccessCounter
    private var order = SlotRings(1)
    private var stamps: [UInt64] = []
    private var isOutOfOrder = false

    init(counting counter: AccessCounter) {
        self.counter = counter
    }

    /// The least recently used slot.
    var oldest: Int? { order.first(in: 0) }

    /// The slot that was used next after this one.
    func newer(than slot: Int) -> Int? { order.next(after: slot) }

    func stamp(of slot: Int) -> UInt64 { stamps[slot] }

    /// Adds a slot that is not in the list, as the most recently used. O(1) amortized.
    mutating func append(_ slot: Int, at time: Timestamp) {
        append(slot, stamp: counter.next(at: time))
    }

    /// The same for past uses, added in chronological order.
    mutating func load(_ slot: Int, usedAt time: Timestamp) {
        append(slot, stamp: counter.stamp(of: time))
    }

    /// The same for a past use that may be older than those in the list, which is then out of order until `restore`.
    mutating func appendLate(_ slot: Int, usedAt time: Timestamp) {
        append(slot, stamp: counter.stamp(of: time))
        isOutOfOrder = true
    }

    /// Sorts the list by the stamps, and by file where they are equal. O(n log n) after `appendLate`.
    mutating func restore(file: (Int) -> UInt64) {
        guard isOutOfOrder else { return }
        var slots: [(stamp: UInt64, file: UInt64, slot: Int)] = []
        var next = order.first(in: 0)
        while let slot = next {
            slots.append((stamps[slot], file(slot), slot))
            next = order.next(after: slot)
        }
        order.removeAll()
        for (_, _, slot) in slots.sorted(by: { ($0.stamp, $0.file) < ($1.stamp, $1.file) }) {
            order.append(slot, to: 0)
        }
        isOutOfOrder = false
    }

    /// Notes a use. O(1).
    mutating func touch(_ slot: Int, at time: Timestamp) {
        stamps[slot] = counter.next(at: time)
        order.move(slot, toEndOf: 0)
    }

    /// Removes a slot. O(1).
    mutating func remove(_ slot: Int) {
        order.remove(slot)
    }

    private mutating func append(_ slot: Int, stamp: UInt64) {
        while stamps.count <= slot { stamps.append(0) }
        stamps[slot] = stamp
        order.append(slot, to: 0)
    }
}

/// Numbers the uses of a cache in their order: the time in milliseconds, and a count within each.
final class AccessCounter: Sendable {
    private static let countBits: UInt64 = 16
    /// About the year 4200; a later time in a file must not use up the numbers.
    private static let latest: Int64 = 1 << 46

    private let last = Lock<UInt64>(0)

    /// Returns a number above all previous ones.
    func next(at time: Timestamp) -> UInt64 {
        let base = Self.base(time)
        return last.withLock { last in
            last = max(last + 1, base)
            return last
        }
    }

    /// Returns the number of a past use; later uses get higher ones.
    func stamp(of time: Timestamp) -> UInt64 {
        let base = Self.base(time)
        last.withLock { $0 = max($0, base) }
        return base
    }

    /// True when the clock has been set back since numbers were taken, by more than the clocks of two boots may differ.
    func isAhead(of now: Timestamp) -> Bool {
        last.withLock { $0 } > Self.base(now.advanced(byMilliseconds: Life.clockTolerance)) | Self.counts
    }

    /// Restarts at `now`, after the clock was set back. Every use in an order then needs a new number.
    func restart(at now: Timestamp) {
        last.withLock { $0 = Self.base(now) }
    }

    private static let counts: UInt64 = 1 << countBits - 1

    private static func base(_ time: Timestamp) -> UInt64 {
        UInt64(min(max(time.milliseconds, 0), latest)) << countBits
    }
}
