/// The result of an import: the imported keys, and the skipped ones with reasons.
public struct ImportReport: Sendable {
    /// The keys that were imported, in the order of their UTF-8 bytes.
    public internal(set) var imported: [String] = []
    /// The payload bytes of all imported values.
    public internal(set) var importedBytes = 0
    /// The keys that were not imported, in the same order.
    public internal(set) var skipped: [Skipped] = []

    /// A key that was not imported.
    public struct Skipped: Sendable, CustomStringConvertible {
        /// The key.
        public let key: String
        /// The reason.
        public let reason: Reason
        /// More about the reason; nil if there is nothing to add.
        public let detail: String?

        init(_ key: String, _ reason: Reason, detail: String? = nil) {
            self.key = key
            self.reason = reason
            self.detail = detail
        }

        /// The key and the reason.
        public var description: String { "\(key.debugDescription): \(reason)\(detail.map { " (\($0))" } ?? "")" }
    }

    /// The reason why a key was not imported. More may be added.
    public struct Reason: Hashable, Sendable, CustomStringConvertible {
        /// The reason in words.
        public let description: String

        private init(_ description: String) {
            self.description = description
        }

        /// The entry has expired.
        public static let expired = Reason("expired")
        /// The key's value in the list is not a date.
        public static let notADate = Reason("its expiry is not a date")
        /// The key's file name is empty, `.`, `..`, contains a zero byte or is that of the list itself.
        public static let invalidName = Reason("its file name is not usable")
        /// The key's file does not exist.
        public static let missingFile = Reason("its file is missing")
        /// The key's file is a directory, a symbolic link or something else that is not a regular file.
        public static let notAFile = Reason("its file is not a regular file")
        /// Another key has the same file, with the same expiry or a later one, or was stored later.
        public static let sharedFile = Reason("its file is another key's")
        /// The cache has a fresh value for the key, which is newer than any import.
        public static let alreadyStored = Reason("the cache has a value for it")
        /// YYCache stores no such key, or it is longer than 64 KiB.
        public static let invalidKey = Reason("its key is not usable")
        /// A column of its row has something that YYCache does not store there, or it has no value.
        public static let invalidRow = Reason("its row is damaged")
        /// A later row has the same key.
        public static let duplicate = Reason("a later row has its key")
        /// The value or its file does not have the size that the row states.
        public static let wrongSize = Reason("its value is not of the stated size")
        /// The value is longer than 64 MiB in a row of YYCache's manifest, or than 2 GiB in a file.
        public static let tooLarge = Reason("its value is too long")
        /// The value could not be read or stored.
        public static let failed = Reason("failed")
    }
}

extension ImportReport: CustomStringConvertible {
    /// A summary line, and a line for each skipped key.
    public var description: String {
        var lines = ["imported \(imported.count) entries, \(importedBytes) bytes; skipped \(skipped.count)"]
        lines += skipped.map { "  \($0)" }
        return lines.joined(separator: "\n")
    }
}

/// The result of reading every entry.
public struct VerificationReport: Sendable {
    /// The number of entries that were read and are intact.
    public internal(set) var checked = 0
    /// The payload bytes of these entries.
    public internal(set) var bytes = 0
    /// The keys of entries that were proven damaged. They have been removed.
    public internal(set) var damaged: [String] = []
    /// The keys of entries whose file was missing. They have been removed.
    public internal(set) var missing: [String] = []
    /// The keys of entries that could not be read for another reason. They have been kept.
    public internal(set) var unreadable: [String] = []
    /// The number of entry files without an entry. They are not touched: the next opening after an unclean close
    /// examines them.
    public internal(set) var orphans = 0
    /// The number of entry files without an entry while other processes have the directory open: these are storing or
    /// deleting them. What one that has died leaves is deleted soon. No fault.
    public internal(set) var owed = 0

    /// Whether no fault was found.
    public var isClean: Bool { damaged.isEmpty && missing.isEmpty && unreadable.isEmpty && orphans == 0 }
}

extension VerificationReport: CustomStringConvertible {
    /// A summary line, and a line for each key with a fault.
    public var description: String {
        var lines = [
            "checked \(checked) entries, \(bytes) bytes; damaged \(damaged.count), missing \(missing.count), "
                + "unreadable \(unreadable.count), orphans \(orphans)" + (owed > 0 ? ", owed \(owed)" : "")
        ]
        lines += damaged.map { "  \($0.debugDescription): damaged, removed" }
        lines += missing.map { "  \($0.debugDescription): its file was gone, removed" }
        lines += unreadable.map { "  \($0.debugDescription): could not be read, kept" }
        return lines.joined(separator: "\n")
    }
}
