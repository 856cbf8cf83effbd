import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

/// Another process that has a file open.
protocol OtherProcess {
    func lock(_ byte: Int) throws -> Bool
    func unlock(_ byte: Int) throws
    func locked(_ bytes: Range<Int>) throws -> Int?
    func load(_ word: Int) throws -> UInt64
    func add(_ value: UInt64, at word: Int) throws -> UInt64
    /// Opens the file once more, and closes that.
    func reopen() throws
    func kill()
}

/// One in memory.
final class MemoryProcess: OtherProcess {
    private let files: MemoryFileSystem
    private let directory: OwnedDescriptor
    private let name: FileName
    private let file: OwnedDescriptor
    private let words: MappedWords

    init(_ files: MemoryFileSystem, _ path: String, _ name: FileName) throws {
        self.files = files
        self.name = name
        directory = OwnedDescriptor(try files.openDirectory(path: path, creation: .never))
        file = OwnedDescriptor(try files.open(name, in: directory.file, for: .updating))
        words = try files.map(file.file, words: try files.status(of: file.file).size / 8)
    }

    func lock(_ byte: Int) throws -> Bool { try files.lock(byte: byte, of: file.file) }
    func unlock(_ byte: Int) throws { files.unlock(byte: byte, of: file.file) }
    func locked(_ bytes: Range<Int>) throws -> Int? { try files.lockedByte(in: bytes, of: file.file) }
    func load(_ word: Int) throws -> UInt64 { words.load(word) }
    func add(_ value: UInt64, at word: Int) throws -> UInt64 { words.add(value, at: word) }
    func reopen() throws { _ = try files.open(name, in: directory.file, for: .reading) }
    func kill() { files.kill() }
}

/// A real one.
final class RealProcess: OtherProcess {
    private let process = Process()
    private let (input, output) = (Pipe(), Pipe())

    init(_ path: String, _ name: String) throws {
        let bundles = Bundle.allBundles.map(\.bundleURL).filter { $0.pathExtension == "xctest" }
        let places = bundles + [URL(fileURLWithPath: CommandLine.arguments[0])]
        let found: URL? = places.map { $0.deletingLastPathComponent().appendingPathComponent("LockChild") }
            .first { FileManager.default.isExecutableFile(atPath: $0.path) }
        let executable: URL = try #require(found, "LockChild is not built next to the tests")
        process.executableURL = executable
        process.arguments = [path, name]
        process.standardInput = input
        process.standardOutput = output
        try process.start()
        // It has the file open now.
        _ = try load(0)
    }

    deinit {
        kill()
    }

    private func ask(_ command: String) throws -> String {
        try input.fileHandleForWriting.write(contentsOf: Data((command + "\n").utf8))
        var answer: [UInt8] = []
        while let byte = try output.fileHandleForReading.read(upToCount: 1)?.first, byte != UInt8(ascii: "\n") {
            answer.append(byte)
        }
        return String(decoding: answer, as: UTF8.self)
    }

    func lock(_ byte: Int) throws -> Bool { try ask("lock \(byte)") == "true" }
    func unlock(_ byte: Int) throws { #expect(try ask("unlock \(byte)") == "done") }
    func locked(_ bytes: Range<Int>) throws -> Int? { Int(try ask("locked \(bytes.lowerBound) \(bytes.upperBound)")) }
    func load(_ word: Int) throws -> UInt64 { try #require(UInt64(try ask("load \(word)"))) }
    func add(_ value: UInt64, at word: Int) throws -> UInt64 { try #require(UInt64(try ask("add \(value) \(word)"))) }
    func reopen() throws { #expect(try ask("reopen") == "done") }

    func kill() {
        guard process.isRunning else { return }
        Foundation.kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }
}
