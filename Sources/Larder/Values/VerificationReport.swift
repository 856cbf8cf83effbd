/// What reading every entry has found.
public struct VerificationReport: Sendable {
    /// Entries that were read and are what was stored.
    public internal(set) var checked = 0
    /// Their payload bytes.
    public internal(set) var bytes = 0
    /// The keys of entries that were proven damaged. They have been removed.
    public internal(set) var damaged: [String] = []
    /// The keys of entries whose file was gone. They have been removed.
    public internal(set) var missing: [String] = []
    /// The keys of entries that could not be read, for whatever reason. They have been kept.
    public internal(set) var unreadable: [String] = []
    /// Entry files that belong to no entry. They are left alone: the next opening after an unclean close looks into them.
    public internal(set) var orphans = 0

    /// Whether there is nothing to complain of.
    public var isClean: Bool { damaged.isEmpty && missing.isEmpty && unreadable.isEmpty && orphans == 0 }
}

extension VerificationReport: CustomStringConvertible {
    /// A line about the whole, and one for each key with a fault.
    public var description: String {
        var lines = [
            "checked \(checked) entries, \(bytes) bytes; damaged \(damaged.count), missing \(missing.count), "
                + "unreadable \(unreadable.count), orphans \(orphans)"
        ]
        lines += damaged.map { "  \($0.debugDescription): damaged, removed" }
        lines += missing.map { "  \($0.debugDescription): its file was gone, removed" }
        lines += unreadable.map { "  \($0.debugDescription): could not be read, kept" }
        return lines.joined(separator: "\n")
    }
}
