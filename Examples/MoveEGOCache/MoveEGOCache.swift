import Foundation
import Larder

/// Imports a directory of EGOCache into Larder, and reports what happened to each key.
@main
struct MoveEGOCache {
    static let help = """
        usage: MoveEGOCache [OLD [NEW]]

        Imports the EGOCache directory OLD into a cache in the directory NEW (default: OLD with ".larder" at the end).
        OLD is not changed. Without arguments, a small example is created and imported.
        """

    static func main() {
        let arguments = CommandLine.arguments.dropFirst()
        if arguments.first == "--help" { return print(help) }
        do {
            if let old = arguments.first {
                let new = arguments.dropFirst().first ?? old + ".larder"
                try move(URL(fileURLWithPath: old), to: URL(fileURLWithPath: new))
            } else {
                let home = FileManager.default.temporaryDirectory.appendingPathComponent("larder-\(UUID().uuidString)")
                defer { try? FileManager.default.removeItem(at: home) }
                let old = home.appendingPathComponent("EGOCache", isDirectory: true)
                try makeUp(old)
                try move(old, to: home.appendingPathComponent("Larder", isDirectory: true))
            }
        } catch let error as CacheError {
            FileHandle.standardError.write(Data("MoveEGOCache: \(error)\n".utf8))
            exit(1)
        } catch {
            FileHandle.standardError.write(Data("MoveEGOCache: \(error.localizedDescription)\n".utf8))
            exit(1)
        }
    }

    private static func move(_ old: URL, to new: URL) throws {
        let cache = try DiskCache(directory: new)
        print(try cache.importEGOCache(from: old))
        print(try cache.verify())
        for entry in cache.entries().sorted(by: { $0.key < $1.key }) {
            print("\(entry.key): \(entry.payloadSize) bytes, \(entry.expiresAt.map { "until \($0)" } ?? "forever")")
        }
        try cache.close()
    }

    /// Creates a directory like EGOCache's: a list of expiry dates, and a file per key, with underscores for slashes.
    private static func makeUp(_ directory: URL) throws {
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        let tomorrow = Date(timeIntervalSinceNow: 86_400)
        let dates: [String: Date] = [
            "greeting": tomorrow, "users/42": tomorrow, "users_42": tomorrow.addingTimeInterval(-60),
            "yesterday": tomorrow.addingTimeInterval(-2 * 86_400), "lost": tomorrow,
        ]
        for (name, content) in ["greeting": "hello", "users_42": "Ann", "yesterday": "old"] {
            try Data(content.utf8).write(to: directory.appendingPathComponent(name))
        }
        let list = try PropertyListSerialization.data(fromPropertyList: dates, format: .xml, options: 0)
        try list.write(to: directory.appendingPathComponent("EGOCache.plist"))
    }
}
