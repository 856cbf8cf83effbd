import Foundation
import Larder
import LarderFiles

/// Writes the directory of a closed cache with this many entries, in version 1 of the documented format, which is read
/// whole. Only the first few have a file: these can be read, and no one looks for the others.
struct SyntheticDirectory {
    static let filed = 16

    let url: URL
    let entries: Int
    /// The number of expired entries: every second one, up to this number.
    var expired = 0
    private let payload = Array("payload".utf8)
    private let check: FileName
    /// Now; an hour ago if there are expired entries, which have lived for half of it.
    private let stored: Date
    /// A time at which no entry has expired.
    private var early: Date { expired > 0 ? stored.addingTimeInterval(900) : Date() }

    init(_ url: URL, entries: Int, expired: Int = 0) {
        self.url = url
        self.entries = entries
        self.expired = expired
        stored = Date(timeIntervalSinceNow: expired > 0 ? -3_600 : 0)
        check = FileName.number(payload.withUnsafeBytes { XXH64.hash($0) })
    }

    var manifest: URL { url.appendingPathComponent("manifest.json") }

    func write() throws {
        let files = url.appendingPathComponent("entries", isDirectory: true)
        try FileManager.default.createDirectory(at: files, withIntermediateDirectories: true)
        for number in 1...Self.filed {
            try Data(payload).write(to: files.appendingPathComponent(FileName.number(UInt64(number)).description))
        }
        let stored = Int(self.stored.timeIntervalSince1970 * 1000)
        let header = record(#"{"larder":1,"g":1,"n":\#(entries)"#)
        try print("journal-\(FileName.number(1)).jsonl") { write in
            try write(header + "\n" + record(#"{"o":"closed","n":\#(entries)"#))
        }
        try print("manifest.json") { write in
            try write("[" + header)
            for number in 1...entries {
                let isExpired = number.isMultiple(of: 2) && number / 2 <= expired
                let life = isExpired ? 1_800_000 : 86_400_000
                try write("\n," + entry(Content.key(number), number, stored: stored, life: life))
            }
            try write("\n]\n")
        }
    }

    private func print(_ name: String, _ body: ((String) throws -> Void) throws -> Void) throws {
        let path = url.appendingPathComponent(name).path
        guard FileManager.default.createFile(atPath: path, contents: nil),
            let file = FileHandle(forWritingAtPath: path)
        else { throw BenchFailure("cannot write \(path)") }
        var text = Data()
        try body { line in
            text.append(contentsOf: line.utf8)
            if text.count > 1 << 20 {
                try file.write(contentsOf: text)
                text.removeAll(keepingCapacity: true)
            }
        }
        try file.write(contentsOf: text)
        try file.close()
    }

    private func entry(_ key: String, _ number: Int, stored: Int, life: Int) -> String {
        record(
            #"{"k":"\#(key)","n":\#(number),"s":\#(stored),"e":\#(stored + life),"t":\#(life)"#
                + #","z":\#(payload.count),"h":"\#(check)""#)
    }

    private func record(_ text: String) -> String {
        var text = text
        let check = text.withUTF8 { XXH64.hash(UnsafeRawBufferPointer($0)) }
        return text + #","c":"\#(FileName.number(check))"}"#
    }
}

/// The present version of the format, whose manifest is in groups.
extension SyntheticDirectory {
    /// How the last session ended.
    enum End {
        case closed
        /// A kill, which has damaged nothing. Every entry has a file; the files that no one reads are empty.
        case killed
    }

    /// The largest journal that a close leaves: with one more record it would have saved the manifest.
    static func longestJournal(_ entries: Int) -> Int { entries > 1_000 ? entries / 4 - 1 : 0 }

    /// Writes the directory, with a journal of some records, each of which overwrites another entry.
    func writeGrouped(journal records: Int, _ end: End = .closed) throws {
        try write()
        var configuration = DiskCache.Configuration()
        configuration.now = { [early] in early }
        let cache = try DiskCache(directory: url, configuration: configuration)
        try cache.setData(Data(payload), forKey: Content.key(1))
        try cache.flush()
        try cache.close()
        try addToJournal(records, end)
        if end == .killed { try makeEmptyFiles(records) }
    }

    /// The number of the entry that a record of the journal overwrites.
    private func overwritten(by record: Int) -> Int {
        1 + Self.filed + record * 7919 % (entries - Self.filed)
    }

    /// The file of the value that a record of the journal describes. The save has taken the number after `entries`.
    private func file(of record: Int) -> Int { entries + 2 + record }

    private func addToJournal(_ records: Int, _ end: End) throws {
        let journals = try journals()
        guard journals.count == 1 else { throw BenchFailure("\(url.path) has \(journals.count) journals") }
        let old = String(decoding: try Data(contentsOf: url.appendingPathComponent(journals[0])), as: UTF8.self)
        let lines = old.split(separator: "\n")
        guard lines.count == 2, let totals = lines[1].range(of: #","to":"#), let check = lines[1].range(of: #","c":"#)
        else { throw BenchFailure("\(journals[0]) has other records than a header and the mark of a close") }
        let stored = Int(early.timeIntervalSince1970 * 1000)
        try print(journals[0]) { write in
            try write(String(lines[0]))
            for number in 0..<records {
                let key = Content.key(overwritten(by: number))
                try write("\n" + entry(key, file(of: number), stored: stored, life: 86_400_000))
            }
            if end == .killed { return }
            let last = file(of: records) - 1
            try write(
                "\n" + record(#"{"o":"closed","n":\#(last)"# + lines[1][totals.lowerBound..<check.lowerBound]))
        }
    }

    private func makeEmptyFiles(_ records: Int) throws {
        let folder = open(url.appendingPathComponent("entries").path, O_RDONLY | O_DIRECTORY)
        defer { close(folder) }
        var files = Array(0...entries)
        for number in 0..<records { files[overwritten(by: number)] = file(of: number) }
        for number in files.dropFirst(1 + Self.filed) {
            let file = openat(folder, FileName.number(UInt64(number)).description, O_WRONLY | O_CREAT | O_EXCL, 0o600)
            guard file >= 0 else { throw BenchFailure("cannot create a file in \(url.path)") }
            close(file)
        }
    }

    /// The names of the journals.
    func journals() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: url.path).filter { $0.hasPrefix("journal-") }
    }

    /// Saves a copy of the index, which `restore` puts back. The manifest is linked: it is replaced, never changed.
    func saveIndex(to copy: URL) throws {
        try FileManager.default.createDirectory(at: copy, withIntermediateDirectories: true)
        try copyIndex(from: url, to: copy)
    }

    func restoreIndex(from copy: URL) throws {
        try removeIndex()
        try copyIndex(from: copy, to: url)
    }

    /// Deletes everything but the files of the entries.
    func removeIndex() throws {
        for name in try FileManager.default.contentsOfDirectory(atPath: url.path) where name != "entries" {
            try FileManager.default.removeItem(at: url.appendingPathComponent(name))
        }
    }

    private func copyIndex(from source: URL, to target: URL) throws {
        for name in try FileManager.default.contentsOfDirectory(atPath: source.path) {
            let (old, new) = (source.appendingPathComponent(name), target.appendingPathComponent(name))
            if name.hasPrefix("manifest") {
                try FileManager.default.linkItem(at: old, to: new)
            } else if name.hasPrefix("journal-") {
                try FileManager.default.copyItem(at: old, to: new)
            }
        }
    }
}
