import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("Lines are read in a bounded buffer")
struct LineReaderTests {
    private func lines(_ content: [UInt8]) throws -> [Int] {
        let files = MemoryFileSystem()
        let root = try files.openDirectory(path: "/d", creation: .plain)
        let file = try files.open(.text("f"), in: root, for: .creating)
        try files.write(content, to: file, at: 0)
        var lengths: [Int] = []
        _ = try LineReader(fileSystem: files).forEachLine(of: file) { line in
            lengths.append(line.count)
            return true
        }
        return lengths
    }

    @Test("wherever they cross the buffer's end", arguments: [0, 1, 255, 256, 257, 300 << 10, 1 << 20])
    func boundaries(length: Int) throws {
        let line = [UInt8](repeating: 65, count: length)
        #expect(try lines(line + [10] + line) == (length == 0 ? [0] : [length, length]))
        #expect(try lines(line + [10] + line + [10]) == [length, length])
    }

    @Test("many short lines across many chunks")
    func many() throws {
        var generator = SeededGenerator(seed: 3)
        let lengths = (0..<20_000).map { _ in Int.random(in: 0...100, using: &generator) }
        let content = lengths.flatMap { [UInt8](repeating: 66, count: $0) + [10] }
        #expect(try lines(content) == lengths)
    }

    @Test("an endless line comes in pieces")
    func endless() throws {
        let lengths = try lines([UInt8](repeating: 67, count: 3 << 20))
        #expect(lengths.reduce(0, +) == 3 << 20)
        #expect(lengths.allSatisfy { $0 <= 2 << 20 })
    }
}
