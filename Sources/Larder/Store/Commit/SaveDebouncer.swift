/// When the manifest is saved: a delay after the *first* change, so that a stream of changes cannot put it off for ever.
struct SaveDebouncer {
    /// Manifests with at most this many entries are rewritten whatever changed.
    static let cheapCount = 1_000

    private var isScheduled = false

    /// Notes a change; true when a save has to be scheduled for it.
    mutating func changed() -> Bool {
        defer { isScheduled = true }
        return !isScheduled
    }

    /// Notes that the scheduled time has come: the next change schedules anew.
    mutating func due() {
        isScheduled = false
    }

    /// True when rewriting the manifest is cheap beside what changed: it keeps the cost per change constant.
    static func isWorthSaving(records: Int, entries: Int) -> Bool {
        records > 0 && (entries <= cheapCount || records >= entries / 4)
    }
}
