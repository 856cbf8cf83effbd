import Foundation
import Larder
import LarderFiles

/// Writes the directory of a closed cache with this many entries, in the documented format. Only the first few have a
/// file: these can be read, and no one looks for the others.
struct SyntheticDirectory {
    static let filed = 16

    let url: URL
    let entries: Int
    /// The number of expired entries: every second one, up to this number.
    var expired = 0
    private let payload = Array("payload".utf8)

    init(_ url: URL, entries: Int, expired: Int = 0) {
        self.url = url
        self.entries = entries
        self.expired = expired
    }

    var manifest: URL { url.appendingPathComponent("manifest.json") }

    func write() throws {
        let files = url.appendingPathComponent("entries", isDirectory: true)
        try FileManager.default.createDirectory(at: files, withIntermediateDirectories: true)
        for number in 1...Self.filed {
            try Data(payload).write(to: files.appendingPathComponent(FileName.number(UInt64(number)).description))
        }
        let now = Int(Date().timeIntervalSince1970 * 1000)
        let header = record(#"{"larder":1,"g":1,"n":\#(entries)"#)
        try print("journal-\(FileName.number(1)).jsonl") { write in
            try write(header + "\n" + record(#"{"o":"closed","n":\#(entries)"#))
        }
        let check = FileName.number(payload.withUnsafeBytes { XXH64.hash($0) })
        try print("manifest.json") { write in
            try write("[" + header)
            for number in 1...entries {
                let isExpired = number.isMultiple(of: 2) && number / 2 <= expired
                let (stored, life) = isExpired ? (now - 60_000, 1_000) : (now, 86_400_000)
                try write(
                    "\n,"
                        + record(
                            #"{"k":"\#(Content.key(number))","n":\#(number),"s":\#(stored),"e":\#(stored + life),"t":\#(life),"z":\#(payload.count),"h":"\#(check)""#
                        ))
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

    private func record(_ text: String) -> String {
        var text = text
        let check = text.withUTF8 { XXH64.hash(UnsafeRawBufferPointer($0)) }
        return text + #","c":"\#(FileName.number(check))"}"#
    }
}
