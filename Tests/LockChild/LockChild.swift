import Foundation
import LarderFiles

/// Does what its parent, a test, asks for with a file, one command a line, and answers each with a line.
///
/// usage: LockChild DIRECTORY NAME
///
/// `lock BYTE`, `unlock BYTE`, `locked FROM TO`, `load WORD`, `add VALUE WORD`, `reopen` (opens the file once more and
/// closes that). It ends with its input.
@main
struct LockChild {
    static func main() throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 3 else {
            FileHandle.standardError.write(Data("usage: LockChild DIRECTORY NAME\n".utf8))
            exit(64)
        }
        let files = PosixFileSystem()
        let directory = try files.openDirectory(path: arguments[1], creation: .never)
        let name = FileName.text(arguments[2])
        let file = try files.open(name, in: directory, for: .updating)
        let words = try files.map(file, words: try files.status(of: file).size / 8)
        while let line = readLine() {
            let parts = line.split(separator: " ")
            let numbers = parts.dropFirst().compactMap { Int($0) }
            let answer: String
            switch (parts.first, numbers.count) {
            case ("lock", 1): answer = "\(try files.lock(byte: numbers[0], of: file))"
            case ("unlock", 1):
                files.unlock(byte: numbers[0], of: file)
                answer = "done"
            case ("locked", 2):
                answer = try files.lockedByte(in: numbers[0]..<numbers[1], of: file).map { "\($0)" } ?? "none"
            case ("load", 1): answer = "\(words.load(numbers[0]))"
            case ("add", 2): answer = "\(words.add(UInt64(numbers[0]), at: numbers[1]))"
            case ("reopen", 0):
                _ = try files.open(name, in: directory, for: .reading)
                answer = "done"
            default: answer = "unknown"
            }
            FileHandle.standardOutput.write(Data((answer + "\n").utf8))
        }
    }
}
