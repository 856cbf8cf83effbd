import LarderFiles

/// Slots in the order of their last use: a doubly linked list in contiguous storage, 16 bytes a slot.
///
/// Each place carries a stamp, taken from a counter that all shards share, so that the order holds across them.
struct LRUList: Sendable {
    private struct Link {
        var older: UInt32
        var newer: UInt32
        var stamp: UInt64
    }

    private static let none = UInt32.max

    private let counter: UseCounter
    private var links: [Link] = []
    private var first = none
    private var last = none

    init(counting counter: UseCounter) {
        self.counter = counter
    }

    /// The slot whose use is longest ago.
    var oldest: Int? { slot(first) }

    /// The slot that was used next after this one.
    func newer(than slot: Int) -> Int? { self.slot(links[slot].newer) }

    func stamp(of slot: Int) -> UInt64 { links[slot].stamp }

    /// Puts a slot in that is not there, as the one used last. O(1) amortised.
    mutating func append(_ slot: Int, at time: Timestamp) {
        link(slot, stamp: counter.next(at: time))
    }

    /// The same for uses of the past, which come in their order.
    mutating func load(_ slot: Int, usedAt time: Timestamp) {
        link(slot, stamp: counter.stamp(of: time))
    }

    /// Notes a use. O(1).
    mutating func touch(_ slot: Int, at time: Timestamp) {
        let stamp = counter.next(at: time)
        if last == UInt32(slot) {
            links[slot].stamp = stamp
            return
        }
        remove(slot)
        link(slot, stamp: stamp)
    }

    /// Takes a slot out. O(1).
    mutating func remove(_ slot: Int) {
        let link = links[slot]
        if let older = self.slot(link.older) { links[older].newer = link.newer } else { first = link.newer }
        if let newer = self.slot(link.newer) { links[newer].older = link.older } else { last = link.older }
    }

    private mutating func link(_ slot: Int, stamp: UInt64) {
        while links.count <= slot { links.append(Link(older: Self.none, newer: Self.none, stamp: 0)) }
        links[slot] = Link(older: last, newer: Self.none, stamp: stamp)
        if let newest = self.slot(last) { links[newest].newer = UInt32(slot) } else { first = UInt32(slot) }
        last = UInt32(slot)
    }

    private func slot(_ link: UInt32) -> Int? { link == Self.none ? nil : Int(link) }
}

/// Numbers the uses of a cache in their order: the time in milliseconds, and within one a count.
final class UseCounter: Sendable {
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

    private static func base(_ time: Timestamp) -> UInt64 {
        UInt64(min(max(time.milliseconds, 0), latest)) << countBits
    }
}
