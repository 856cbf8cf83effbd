import LarderFiles

/// For tests.
extension Manifest {
    var reminderCount: Int { expiries.reminders.count }
    var noteCount: Int { touched.count }
    var rebuildCount: Int { expiries.rebuilds }

    /// Returns what is wrong with the value; nothing, unless there is a bug. O(n log n).
    func violations() -> [String] {
        var found: [String] = []
        let used = rows.indices.filter { rows[$0].file != 0 }
        let live = used.filter { !isCleared(rows[$0]) }
        var sums: [Namespace: Totals] = [:]
        let counted = used.filter { !isUncounted(rows[$0]) }
        for slot in counted { sums[rows[slot].namespace, default: Totals()].add(rows[slot]) }
        if counted.reduce(into: Totals(), { $0.add(rows[$1]) }) != totals { found.append("the totals are \(totals)") }
        sums[.none] = nil
        if sums != namespaces { found.append("the namespaces have \(namespaces)") }
        if Set(free.map(Int.init)) != Set(rows.indices).subtracting(used) { found.append("free slots are wrong") }
        var reminders: [UInt32: Timestamp] = [:]
        for reminder in expiries.reminders {
            reminders[reminder.slot] = min(reminder.at, reminders[reminder.slot] ?? reminder.at)
        }
        for slot in live {
            let row = rows[slot]
            if self.slot(row.name) != slot { found.append("\(row.key) is not found in its slot") }
            if row.life.isForever { continue }
            guard let reminder = reminders[UInt32(slot)], reminder <= row.keptUntil else {
                found.append("\(row.key) has no reminder of its expiry")
                continue
            }
        }
        guard uses != nil else { return found }
        let order = leastRecentlyUsed(.max)
        if order.count != live.count || Set(order.map(\.row.file)) != Set(live.map { rows[$0].file }) {
            found.append("the order of use has \(order.count) rows")
        }
        if zip(order, order.dropFirst()).contains(where: { $0.stamp > $1.stamp }) {
            found.append("the order of use is none")
        }
        return found
    }
}
