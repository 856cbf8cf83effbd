import Foundation
import Larder
import LarderFiles

/// Memory, from the resident size of a separate process; only on Linux, which reports it.
extension Scenario {
    static var resident: [Scenario] {
        if Resident.size == nil { return [] }
        return [
            Scenario(
                name: "index, besides key", entries: Resident.entries, unit: .bytes, floor: "", target: .most(260),
                mostRounds: 2
            ) { folder in
                try SyntheticDirectory(folder.own, entries: Resident.entries).write()
                return Run { _ in (try Resident.index.inChild(folder.own), Samples()) }
            },
            Scenario(
                name: "memory tier, besides key and value", entries: Resident.entries, unit: .bytes,
                floor: "[String: Data]", target: .above(64), mostRounds: 2
            ) { folder in
                Run { _ in (try Resident.memory.inChild(folder.url), try Resident.dictionary.inChild(folder.url)) }
            },
            Scenario(
                name: "process, 10 of 1M entries read", entries: Resident.entries, unit: .megabytes,
                floor: "an empty process", target: .above(10_000_000), mostRounds: 2
            ) { folder in
                try SyntheticDirectory(folder.own, entries: Resident.entries).writeGrouped(journal: 1_000)
                return Run { _ in (try Resident.opened.inChild(folder.own), try Resident.empty.inChild(folder.url)) }
            },
        ]
    }
}

/// The content of a process that prints its size.
enum Resident: String {
    case index, memory, dictionary, opened, empty

    static let entries = 1_000_000

    /// The resident size of this process, in bytes; nil if unknown.
    static var size: Int? {
        guard let text = try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8),
            let pages = text.split(separator: " ").dropFirst().first.flatMap({ Int($0) })
        else { return nil }
        return pages * Int(sysconf(Int32(_SC_PAGESIZE)))
    }

    /// Starts this program again to measure one; returns the bytes per entry, or of the process.
    func inChild(_ directory: URL) throws -> Samples {
        let child = Process()
        let output = Pipe()
        child.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        child.arguments = ["--resident", rawValue, "--directory", directory.path]
        child.standardOutput = output
        try child.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        child.waitUntilExit()
        guard let bytes = UInt64(text.trimmingCharacters(in: .whitespacesAndNewlines)) else {
            throw BenchFailure("the measuring process printed: \(text)")
        }
        var samples = Samples()
        samples.add(bytes)
        return samples
    }

    /// Measures in this process.
    func print(_ directory: URL) throws {
        if self == .opened || self == .empty { return try printWhole(directory) }
        let keys = self == .index ? [] : (0..<Self.entries).map(Content.key)
        let (cache, table) = (MemoryCache<String, Data>(), Lock<[String: Data]>([:]))
        let value = Data(count: 1_000)
        guard let before = Self.size else { throw BenchFailure("the resident size is not known") }
        var disk: DiskCache?
        switch self {
        case .index
        where !FileManager.default.fileExists(atPath: SyntheticDirectory(directory, entries: 0).manifest.path):
            throw BenchFailure("\(directory.path) has no manifest")
        case .index: disk = try DiskCache(directory: directory)
        case .memory: for key in keys { cache.setValue(value, forKey: key) }
        case .dictionary: for key in keys { table.withLock { $0[key] = value } }
        case .opened, .empty: break
        }
        let keyBytes = self == .index ? (1...Self.entries).reduce(0) { $0 + Content.key($1).utf8.count } : 0
        let bytes = (Self.size ?? 0) - before - keyBytes
        withExtendedLifetime((keys, cache, table, disk)) { Swift.print(max(0, bytes) / Self.entries) }
        try disk?.close()
    }

    /// Opens a cache and reads ten keys, or does nothing. Prints the resident size of the process.
    private func printWhole(_ directory: URL) throws {
        let cache = self == .opened ? try DiskCache(directory: directory) : nil
        if let cache {
            for number in 1...10 { precondition(cache.data(forKey: Content.key(number)) != nil) }
        }
        guard let size = Self.size else { throw BenchFailure("the resident size is not known") }
        Swift.print(size)
        try cache?.close()
    }
}
