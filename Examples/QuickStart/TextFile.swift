import Foundation

/// The cached result for a file.
nonisolated struct WordCount: Codable, Sendable {
    let lines: Int
    let words: Int
    /// The ten most frequent words, the most frequent first.
    let frequent: [String]
}

/// A file in the directory.
struct TextFile {
    /// The path below the directory.
    let name: String
    /// The whole path: the key in the cache.
    let key: String
    /// When the file was last changed, in milliseconds since 1970.
    let modified: String

    /// Returns the regular files below a directory, by name.
    static func all(in directory: URL) throws -> [TextFile] {
        let manager = FileManager.default
        let root = directory.resolvingSymlinksInPath().path
        guard (try? manager.contentsOfDirectory(atPath: root)) != nil, let names = manager.enumerator(atPath: root)
        else {
            throw Failure(code: 66, message: "cannot read the directory \(directory.path)")
        }
        var files: [TextFile] = []
        for case let name as String in names {
            let path = root + "/" + name
            guard let attributes = try? manager.attributesOfItem(atPath: path),
                attributes[.type] as? FileAttributeType == .typeRegular,
                let date = attributes[.modificationDate] as? Date
            else { continue }
            let modified = "\(Int(date.timeIntervalSince1970 * 1000))"
            files.append(TextFile(name: name, key: path, modified: modified))
        }
        return files.sorted { $0.name < $1.name }
    }

    /// Reads and counts the file; nil when it is not text.
    func count() -> WordCount? {
        guard let data = FileManager.default.contents(atPath: key), let text = String(data: data, encoding: .utf8)
        else {
            return nil
        }
        let words = text.lowercased().split { !$0.isLetter }
        var frequency: [Substring: Int] = [:]
        for word in words { frequency[word, default: 0] += 1 }
        let frequent = frequency.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.prefix(10)
        return WordCount(
            lines: text.split(separator: "\n", omittingEmptySubsequences: false).count - (text.hasSuffix("\n") ? 1 : 0),
            words: words.count, frequent: frequent.map { String($0.key) })
    }
}
