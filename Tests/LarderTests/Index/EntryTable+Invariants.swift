import LarderFiles

@testable import Larder

extension EntryTable {
    var reminderCount: Int { expiries.reminders.count }
    var noteCount: Int { touched.count }
    var rebuildCount: Int { expiries.rebuilds }

    /// Returns the violated invariants; empty unless there is a bug. O(n log n).
    func violations() -> [String] {
        var found: [String] = []
        let used = entries.indices.filter { entries[$0].file != 0 }
        let live = used.filter { !isCleared(entries[$0]) }
        var sums: [Namespace: Totals] = [:]
        let counted = used.filter { !isUncounted(entries[$0]) }
        for slot in counted { sums[entries[slot].namespace, default: Totals()].add(entries[slot]) }
        if counted.reduce(into: Totals(), { $0.add(entries[$1]) }) != totals {
            found.append("the totals are \(totals)")
        }
        if sums.removeValue(forKey: .none) ?? Totals() != totals(of: .none) {
            found.append("without a namespace there are \(totals(of: .none))")
        }
        if sums != namespaces { found.append("the namespaces have \(namespaces)") }
        if Set(free.map(Int.init)) != Set(entries.indices).subtracting(used) { found.append("free slots are wrong") }
        var reminders: [UInt32: Timestamp] = [:]
        for reminder in expiries.reminders {
            reminders[reminder.slot] = min(reminder.at, reminders[reminder.slot] ?? reminder.at)
        }
        for slot in live {
            let entry = entries[slot]
            if self.slot(entry.key) != slot { found.append("\(entry.keyText) is not found in its slot") }
            if entry.life.isForever { continue }
            guard let reminder = reminders[UInt32(slot)], reminder <= entry.keptUntil else {
                found.append("\(entry.keyText) has no reminder of its expiry")
                continue
            }
        }
        guard let uses else { return found }
        func check(_ part: Rank.Part?) {
            let (order, name) = (offers(.max, of: part).first, part.map { "\($0)" } ?? "all entries")
            let expected = live.filter { part == nil || entries[$0].rank.part == part }
            if order.count != expected.count || Set(order.map(\.file)) != Set(expected.map { entries[$0].file }) {
                found.append("the order of \(name) has \(order.count) entries")
            }
            if zip(order, order.dropFirst()).contains(where: { $0.turn > $1.turn }) {
                found.append("the order of \(name) is none")
            }
        }
        check(nil)
        for part in Rank.Part.allCases {
            check(part)
            let inPart = used.filter { entries[$0].rank.part == part }
            if inPart.reduce(into: Totals(), { $0.add(entries[$1]) }) != uses.totals[part] {
                found.append("\(part) has \(uses.totals[part])")
            }
        }
        return found
    }
}
