import Foundation
import Larder

/// Keeps two types of values about text files in one directory, each type in its own namespace.
@main
struct TypedValues {
    static let help = """
        usage: TypedValues [FILE ...] [--forget]

        Prints the longest line and the first heading of each file, or of this package's articles. Computes them once
        and keeps them for a day. Run it twice, then with --forget, which removes the headings and keeps the lines.
        """

    nonisolated struct Longest: Codable, Sendable {
        var line: Int
        var length: Int
    }

    static func main() async {
        do {
            let arguments = CommandLine.arguments.dropFirst()
            if arguments.contains("--help") { return print(help) }
            let disk = try DiskCache(name: "larder-typed-values")
            let longest = Cache<Longest>(disk: disk, namespace: "longest lines")
            let headings = Cache<[String]>(disk: disk, namespace: "headings")
            if arguments.contains("--forget") {
                try await headings.removeAll()
                return print("forgot the headings; longest lines left: \(await longest.keys().count)")
            }
            let files = arguments.isEmpty ? articles() : arguments.map { URL(fileURLWithPath: $0) }
            var tiers: [String: Int] = [:]
            // In the second round, the values are in memory.
            for round in 1...2 {
                for file in files {
                    let text = try String(contentsOf: file, encoding: .utf8)
                    let line = try await value(of: file, in: longest, &tiers) { longestLine(text) }
                    let titles = try await value(of: file, in: headings, &tiers) { headlines(text) }
                    if round == 1 { print(file.lastPathComponent, "line", line.line, line.length, titles.first ?? "-") }
                }
            }
            print(tiers.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", "))
            try await longest.close()
        } catch {
            FileHandle.standardError.write(Data("TypedValues: \(error)\n".utf8))
            exit(1)
        }
    }

    /// Looks a value up, or computes and stores it; counts the sources.
    private static func value<Value>(
        of file: URL, in cache: Cache<Value>, _ tiers: inout [String: Int], _ compute: () -> Value
    ) async throws -> Value {
        if let found = await cache.lookup(forKey: file.path) {
            tiers["from \(found.source)", default: 0] += 1
            return found.value
        }
        tiers["computed", default: 0] += 1
        let value = compute()
        try await cache.setValue(value, forKey: file.path)
        return value
    }

    private static func longestLine(_ text: String) -> Longest {
        let lengths = text.split(separator: "\n", omittingEmptySubsequences: false).map(\.count)
        let longest = lengths.indices.max { lengths[$0] < lengths[$1] } ?? 0
        return Longest(line: longest + 1, length: lengths[longest])
    }

    private static func headlines(_ text: String) -> [String] {
        text.split(separator: "\n").filter { $0.hasPrefix("#") }.map(String.init)
    }

    private static func articles() -> [URL] {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../Sources/Larder/Larder.docc").standardizedFileURL
        let files = try? FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        return (files ?? []).filter { $0.pathExtension == "md" }.sorted { $0.path < $1.path }
    }
}
