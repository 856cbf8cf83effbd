/// What an import took over, what it did not, and why.
public struct ImportReport: Sendable {
    /// The keys that were imported, in the order of their UTF-8 bytes.
    public internal(set) var imported: [String] = []
    /// Payload bytes of all that was imported.
    public internal(set) var importedBytes = 0
    /// What was not, in the same order.
    public internal(set) var skipped: [Skipped] = []

    /// A key that was not imported.
    public struct Skipped: Sendable {
        /// The key.
        public let key: String
        /// Why it was not.
        public let reason: Reason
        /// What there is to say besides.
        public let detail: String?

        init(_ key: String, _ reason: Reason, detail: String? = nil) {
            self.key = key
            self.reason = reason
            self.detail = detail
        }
    }

    /// Why a key was not imported. More may come.
    public struct Reason: Hashable, Sendable, CustomStringConvertible {
        /// The reason in words.
        public let description: String

        private init(_ description: String) {
            self.description = description
        }

        /// Its life is over.
        public static let expired = Reason("expired")
        /// What stands for the key in the list is no date.
        public static let notADate = Reason("its expiry is no date")
        /// The key's file name is empty, `.`, `..`, has a zero byte or is that of the list itself.
        public static let invalidName = Reason("its file name is not usable")
        /// There is no such file.
        public static let missingFile = Reason("its file is missing")
        /// What has the file's name is a directory, a symbolic link or something else.
        public static let notAFile = Reason("its file is no regular file")
        /// Another key has the same file, with a later expiry or the same.
        public static let sharedFile = Reason("its file is another key's")
        /// The cache has a fresh value for the key, which is newer than any import.
        public static let alreadyStored = Reason("the cache has a value for it")
        /// It could not be read or stored.
        public static let failed = Reason("failed")
    }
}

extension ImportReport: CustomStringConvertible {
    /// A line about the whole, and one for each key that was skipped.
    public var description: String {
        var lines = ["imported \(imported.count) entries, \(importedBytes) bytes; skipped \(skipped.count)"]
        for entry in skipped {
            lines.append("  \(entry.key.debugDescription): \(entry.reason)\(entry.detail.map { " (\($0))" } ?? "")")
        }
        return lines.joined(separator: "\n")
    }
}

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
