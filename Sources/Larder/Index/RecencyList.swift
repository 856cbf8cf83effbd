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
