import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

/// One script for both file systems, beside another process.
@Suite("What processes share", .serialized)
struct SharedMemoryTests {
    enum Kind: CaseIterable {
        case memory, real
    }

    /// The file system of this process, a directory, and a file of 4096 bytes in it.
    private final class Place {
        let files: any FileSystem
        let path: String
        let root: OwnedDescriptor
        private let temporary: TemporaryDirectory?
        static let name = FileName.text("page")

        init(_ kind: Kind) throws {
            temporary = kind == .real ? try TemporaryDirectory() : nil
            files = kind == .real ? PosixFileSystem() : MemoryFileSystem()
            path = temporary?.url.path ?? "/home"
            root = OwnedDescriptor(try files.openDirectory(path: path, creation: .plain))
            let file = try files.open(Self.name, in: root.file, for: .creating)
            try files.write([UInt8](repeating: 0, count: 4096), to: file, at: 0)
        }

        func open() throws -> OwnedDescriptor {
            OwnedDescriptor(try files.open(Self.name, in: root.file, for: .updating))
        }

        func otherProcess() throws -> any OtherProcess {
            if let memory = files as? MemoryFileSystem { return try MemoryProcess(memory.another(), path, Self.name) }
            return try RealProcess(path, "page")
        }
    }

    @Test("two mappings see each other's changes, and so do readers of the file", arguments: Kind.allCases)
    func words(kind: Kind) throws {
        let place = try Place(kind)
        let file = try place.open()
        let words = try place.files.map(file.file, words: 512)
        let again = try place.files.map(try place.open().file, words: 512)
        let other = try place.otherProcess()
        #expect(words.count == 512)
        #expect(words.load(511) == 0)
        words.store(7, at: 511)
        #expect(again.load(511) == 7)
        #expect(try other.load(511) == 7)
        #expect(try other.add(5, at: 511) == 12)
        #expect(words.add(.max, at: 511) == 11)
        #expect(try other.load(511) == 11)
        #expect(!words.replace(7, with: 1, at: 511))
        #expect(words.replace(11, with: .max, at: 511))
        #expect(again.load(511) == .max)
        #expect(words.raise(3, at: 0) == 3)
        #expect(again.raise(2, at: 0) == 3)
        #expect(again.raise(3, at: 0) == 3)
        #expect(words.raise(.max, at: 0) == .max)
        #expect(again.load(1) == 0)
        var bytes = [UInt8](repeating: 0, count: 8)
        #expect(try place.files.read(file.file, at: 511 * 8, into: &bytes) == 8)
        #expect(bytes == [UInt8](repeating: 255, count: 8))
    }

    @Test("a mapping outlives its descriptor and the name of its file", arguments: Kind.allCases)
    func outlives(kind: Kind) throws {
        let place = try Place(kind)
        let other = try place.otherProcess()
        let words = try place.files.map(try place.open().file, words: 512)
        try place.files.remove(Place.name, in: place.root.file, directory: false)
        words.store(9, at: 3)
        #expect(try other.load(3) == 9)
    }

    @Test("no addition and no replacement of another thread is lost", arguments: Kind.allCases)
    func threads(kind: Kind) throws {
        let place = try Place(kind)
        let words = try place.files.map(try place.open().file, words: 512)
        DispatchQueue.concurrentPerform(iterations: 4) { thread in
            for number in 0..<500 {
                words.add(1, at: 0)
                while case let known = words.load(1), !words.replace(known, with: known + 2, at: 1) {}
                words.raise(UInt64(number * 4 + thread), at: 2)
            }
        }
        #expect(words.load(0) == 2000)
        #expect(words.load(1) == 4000)
        #expect(words.load(2) == 1999)
    }

    @Test("a byte is locked by one process, again and again, until that unlocks it", arguments: Kind.allCases)
    func bytes(kind: Kind) throws {
        let place = try Place(kind)
        let (files, file) = (place.files, try place.open())
        let other = try place.otherProcess()
        #expect(try files.lock(byte: 5, of: file.file))
        #expect(try files.lock(byte: 5, of: file.file))
        #expect(try !other.lock(5))
        #expect(try other.lock(6))
        #expect(try !files.lock(byte: 6, of: file.file))
        // Of others only, and beyond the end of the file, too.
        #expect(try files.lockedByte(in: 0..<6, of: file.file) == nil)
        #expect(try files.lockedByte(in: 0..<100, of: file.file) == 6)
        #expect(try files.lockedByte(in: 7..<100, of: file.file) == nil)
        #expect(try other.locked(0..<100) == 5)
        #expect(try other.lock(1_000_000))
        #expect(try files.lockedByte(in: 7..<2_000_000, of: file.file) == 1_000_000)
        // Not the lock of the other.
        files.unlock(byte: 6, of: file.file)
        #expect(try !files.lock(byte: 6, of: file.file))
        try other.unlock(6)
        #expect(try files.lock(byte: 6, of: file.file))
        files.unlock(byte: 5, of: file.file)
        #expect(try other.lock(5))
        #expect(try other.locked(0..<100) == 6)
    }

    @Test("closing any descriptor of the file ends the locks of its bytes", arguments: Kind.allCases)
    func closing(kind: Kind) throws {
        let place = try Place(kind)
        let (files, file) = (place.files, try place.open())
        let other = try place.otherProcess()
        #expect(try files.lock(byte: 1, of: file.file))
        #expect(try other.lock(2))
        _ = try place.files.open(Place.name, in: place.root.file, for: .reading)
        #expect(try other.lock(1))
        try other.reopen()
        #expect(try files.lock(byte: 1, of: file.file))
        #expect(try files.lock(byte: 2, of: file.file))
        // Of this process, and this file.
        let name = FileName.text("another")
        _ = try files.open(name, in: place.root.file, for: .creating)
        try other.reopen()
        #expect(try !other.lock(1))
    }

    @Test("the locks of a process end with it, and its words stay", arguments: Kind.allCases)
    func killed(kind: Kind) throws {
        let place = try Place(kind)
        let (files, file) = (place.files, try place.open())
        let words = try place.files.map(file.file, words: 512)
        let other = try place.otherProcess()
        #expect(try other.lock(1))
        #expect(try other.add(3, at: 3) == 3)
        #expect(try !files.lock(byte: 1, of: file.file))
        other.kill()
        #expect(try files.lockedByte(in: 0..<9, of: file.file) == nil)
        #expect(try files.lock(byte: 1, of: file.file))
        #expect(words.load(3) == 3)
    }

    @Test("a directory is locked by one descriptor alone, or by several that share it", arguments: Kind.allCases)
    func directories(kind: Kind) throws {
        let place = try Place(kind)
        let files = place.files
        let parts = try (0..<3).map { _ in
            OwnedDescriptor(try files.open(.text("."), in: place.root.file, for: .directory))
        }
        func lock(_ part: Int, shared: Bool = false) throws -> Bool { try files.lock(parts[part].file, shared: shared) }
        #expect(try lock(0, shared: true))
        #expect(try lock(1, shared: true))
        #expect(try !lock(2))
        files.unlock(parts[0].file)
        #expect(try !lock(2))
        files.unlock(parts[1].file)
        #expect(try lock(2))
        #expect(try !lock(0, shared: true))
        #expect(try !lock(1))
        files.unlock(parts[2].file)
        #expect(try lock(1, shared: true))
        // A process that has not locked it unlocks nothing.
        files.unlock(parts[2].file)
        #expect(try !lock(2))
    }

    @Test("closing the descriptor of a locked directory ends its lock", arguments: Kind.allCases)
    func closedDirectory(kind: Kind) throws {
        let place = try Place(kind)
        var own: OwnedDescriptor? = OwnedDescriptor(
            try place.files.open(.text("."), in: place.root.file, for: .directory))
        let next = OwnedDescriptor(try place.files.open(.text("."), in: place.root.file, for: .directory))
        #expect(try place.files.lock(own!.file))
        #expect(try !place.files.lock(next.file, shared: true))
        own = nil
        #expect(try place.files.lock(next.file, shared: true))
    }

    @Test("the boot is the same for every process")
    func boot() {
        #expect(PosixFileSystem().boot == PosixFileSystem().boot)
        let memory = MemoryFileSystem()
        #expect(memory.boot == memory.another().boot)
        var generator = SeededGenerator(seed: 1)
        #expect(memory.restarted(with: memory.imageAfterPowerCut(using: &generator)).boot != memory.boot)
    }
}
