import LarderFiles

/// A heap of reminders: "look at this slot at that time".
///
/// Every entry that ends has at least one reminder no later than the time until which it is kept. Longer lives and
/// reused slots leave early reminders; the caller that pops one checks the entry and, if it is still alive, adds a new
/// one. So a renewal costs nothing here, and a sweep costs time in proportion to the number of expired entries.
struct ExpiryQueue: Sendable {
    struct Reminder: Sendable {
        let at: Timestamp
        let slot: UInt32
    }

    private(set) var reminders: [Reminder] = []
    /// For tests.
    private(set) var rebuilds = 0

    /// O(log n); O(1) where lives end in the order in which they were set.
    mutating func insert(_ slot: Int, at time: Timestamp) {
        reminders.append(Reminder(at: time, slot: UInt32(slot)))
        var child = reminders.count - 1
        while child > 0, case let parent = (child - 1) / 2, reminders[child].at < reminders[parent].at {
            reminders.swapAt(child, parent)
            child = parent
        }
    }

    /// Removes and returns the slot of the earliest reminder that is due at `now`. O(log n).
    mutating func popDue(at now: Timestamp) -> Int? {
        guard let first = reminders.first, first.at <= now else { return nil }
        let last = reminders.removeLast()
        if !reminders.isEmpty { sink(last) }
        return Int(first.slot)
    }

    /// Replaces all reminders. O(n log n).
    mutating func rebuild(_ fresh: [Reminder]) {
        reminders = fresh.sorted { $0.at < $1.at }
        rebuilds += 1
    }

    /// Inserts `reminder` at the top and lets it sink.
    private mutating func sink(_ reminder: Reminder) {
        var parent = 0
        while case var child = 2 * parent + 1, child < reminders.count {
            if child + 1 < reminders.count, reminders[child + 1].at < reminders[child].at { child += 1 }
            if reminders[child].at >= reminder.at { break }
            reminders[parent] = reminders[child]
            parent = child
        }
        reminders[parent] = reminder
    }
}
