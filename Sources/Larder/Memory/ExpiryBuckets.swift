public import LarderFiles

/// Slots by the time until which their entries are kept, so that expired ones are found without a search: a radix heap
/// whose buckets are linked lists, 8 bytes per slot.
///
/// Bucket 0 holds the times up to `reached`. Bucket n holds those whose highest bit that differs from `reached` is bit
/// n - 1, so a later bucket holds later times. When the time gets to the lowest bucket in use, `reached` moves on and
/// the entries of that bucket move to lower ones, each at most 63 times in all: O(1) amortized, whatever the times are.
/// A renewal within a bucket, the usual one, changes nothing.
///
/// The caller knows the times, and moves the entries: see `next(at:)`.
@usableFromInline
struct ExpiryBuckets: Sendable {
    /// A step towards the entry that is due first.
    @usableFromInline
    enum Step {
        /// No entry is due.
        case none
        /// The entry of this slot is due.
        case due(Int)
        /// The entry of this slot has to be moved by `place`.
        case move(Int)
    }

    @usableFromInline var rings = SlotRings(64)
    /// A bit per bucket that may have entries.
    @usableFromInline var filled: UInt64 = 0
    @usableFromInline var reached: UInt64 = 0
    /// The bucket whose entries are being moved to lower ones; 0: none.
    @usableFromInline var splitting = 0
    /// No entry is due before this.
    @usableFromInline var quietUntil: UInt64 = 0

    @inlinable
    init() {}

    /// Adds a slot that is in no bucket. O(1) amortized.
    @inlinable
    mutating func insert(_ slot: Int, at end: Timestamp) {
        let bucket = bucket(of: end)
        quietUntil = min(quietUntil, Self.key(end))
        rings.append(slot, to: bucket)
        filled |= 1 << UInt64(bucket)
    }

    /// Removes a slot. O(1).
    @inlinable
    mutating func remove(_ slot: Int) { rings.remove(slot) }

    /// Changes the time of a slot. O(1).
    @inlinable
    mutating func move(_ slot: Int, from old: Timestamp, to end: Timestamp) {
        quietUntil = min(quietUntil, Self.key(end))
        if bucket(of: old) == bucket(of: end) { return }
        place(slot, at: end)
    }

    /// Moves a slot to the bucket of its time. O(1).
    @inlinable
    mutating func place(_ slot: Int, at end: Timestamp) {
        remove(slot)
        insert(slot, at: end)
    }

    /// Starts again at `now`, when there are no slots.
    @inlinable
    mutating func restart(at now: Timestamp) {
        filled = 0
        quietUntil = 0
        reached = Self.key(now)
        splitting = 0
    }

    /// Forgets all slots and frees the memory. Slots are then inserted again.
    mutating func compact() {
        rings.removeAll()
        filled = 0
        quietUntil = 0
        splitting = 0
    }

    /// Whether the clock has been set back by more than so many milliseconds: due entries may not be found. Threads
    /// that have read the clock a moment ago are no reason.
    @inlinable
    func isAhead(of now: Timestamp, by milliseconds: Int64) -> Bool {
        reached > Self.key(now.advanced(byMilliseconds: milliseconds))
    }

    /// Whether a time is still to be reached.
    @inlinable
    func isBehind(_ end: Timestamp) -> Bool { Self.key(end) > reached }

    /// True when no entry is due, as is known without a look.
    @inlinable
    func isQuiet(at now: Timestamp) -> Bool { Self.key(now) < quietUntil }

    /// Returns the next step towards the entry that is due first. O(1) amortized.
    @inlinable
    mutating func next(at now: Timestamp) -> Step {
        if splitting != 0 {
            if let slot = rings.first(in: splitting) { return .move(slot) }
            splitting = 0
        }
        while filled != 0 {
            let bucket = filled.trailingZeroBitCount
            guard let slot = rings.first(in: bucket) else {
                filled &= filled &- 1
                continue
            }
            if bucket == 0 { return .due(slot) }
            let bit = UInt64(bucket &- 1)
            let begin = (reached >> bit | 1) << bit
            if begin > Self.key(now) {
                quietUntil = begin
                return .none
            }
            // Lower buckets are empty, so there is no earlier time.
            reached = begin
            splitting = bucket
            return .move(slot)
        }
        return .none
    }

    @inlinable
    func bucket(of end: Timestamp) -> Int {
        let key = Self.key(end)
        return key <= reached ? 0 : rings.heads &- (key ^ reached).leadingZeroBitCount
    }

    @inlinable
    static func key(_ time: Timestamp) -> UInt64 { UInt64(max(0, time.milliseconds)) }
}
