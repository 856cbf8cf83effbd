import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

/// One script for both file systems, which must behave alike.
@Suite("The file system in memory behaves like the real one")
struct FileSystemTests {
    private static func memory() throws -> (any FileSystem, String, TemporaryDirectory?) {
        (MemoryFileSystem(), "/home", nil)
    }

    private static func real() throws -> (any FileSystem, String, TemporaryDirectory?) {
        let directory = try TemporaryDirectory()
        return (PosixFileSystem(), directory.url.path, directory)
    }

    private func both(_ script: (any FileSystem, String) throws -> Void) throws {
        for make in [Self.memory, Self.real] {
            let (files, path, directory) = try make()
            try script(files, path)
            _ = directory
        }
    }

    private func errno<Result: ~Copyable>(_ body: () throws -> Result) -> Errno? {
        do {
            _ = try body()
            return nil
        } catch {
            return error as? Errno
        }
    }

    @Test("files are created once, written at any offset, truncated, and read to their end")
    func content() throws {
        try both { files, path in
            let root = try files.openDirectory(path: path + "/a/b", creation: .plain)
            let file = try files.open(.number(7), in: root, for: .creating)
            #expect(errno { try files.open(.number(7), in: root, for: .creating) } == .exists)
            try files.write(Array("hello".utf8), to: file, at: 0)
            try files.write([33], to: file, at: 7)
            #expect(try files.status(of: file).size == 8)
            try files.truncate(file, to: 6)
            let again = try files.open(.number(7), in: root, for: .reading)
            var bytes = [UInt8](repeating: 1, count: 10)
            #expect(try files.read(again, at: 1, into: &bytes) == 5)
            #expect(bytes == Array("ello".utf8) + [0, 1, 1, 1, 1, 1])
            #expect(try files.read(again, at: 6, into: &bytes) == 0)
            try files.sync(file)
            try files.sync(root)
        }
    }

    @Test("head and tail are written together")
    func twoParts() throws {
        try both { files, path in
            let root = try files.openDirectory(path: path + "/a", creation: .durable)
            for (head, tail) in [(0, 0), (0, 3), (3, 0), (5, 4), (100_000, 77)] {
                let name = FileName.text("\(head)-\(tail)")
                let file = try files.open(name, in: root, for: .creating)
                let (first, second) = ([UInt8](repeating: 1, count: head), [UInt8](repeating: 2, count: tail))
                try first.withBytes { first throws(Errno) in
                    try second.withBytes { second throws(Errno) in try files.write(first, second, to: file, at: 0) }
                }
                let reader = try files.open(name, in: root, for: .reading)
                var bytes = [UInt8](repeating: 9, count: head + tail + 1)
                #expect(try files.read(reader, at: 0, into: &bytes) == head + tail)
                #expect(bytes.dropLast() == first + second)
            }
        }
    }

    @Test("names are listed, renamed and removed; a directory is removed only when empty")
    func names() throws {
        try both { files, path in
            #expect(errno { try files.openDirectory(path: path + "/none", creation: .never) } == .noEntry)
            let root = try files.openDirectory(path: path + "/a", creation: .plain)
            try files.makeDirectory(.text("d"), in: root)
            #expect(errno { try files.makeDirectory(.text("d"), in: root) } == .exists)
            let directory = try files.open(.text("d"), in: root, for: .directory)
            _ = try files.open(.number(1), in: directory, for: .creating)
            #expect(errno { try files.remove(.text("d"), in: root, directory: true) } == .directoryNotEmpty)
            #expect(errno { try files.open(.number(1), in: directory, for: .directory) } == .notDirectory)
            #expect(try files.status(of: .text("d"), in: root).kind == .directory)
            #expect(try files.status(of: .number(1), in: directory).kind == .regular)
            try files.rename(.number(1), in: directory, to: .text("moved"), in: root)
            #expect(errno { try files.status(of: .number(1), in: directory) } == .noEntry)
            var listed: [FileName: FileKind] = [:]
            try files.list(root) { name, kind in
                listed[name] = kind
                return true
            }
            #expect(listed == [.text("d"): .directory, .text("moved"): .regular])
            try files.remove(.text("d"), in: root, directory: true)
            #expect(
                errno { try files.open(.number(2), in: directory, for: .creating) } == .noEntry,
                "deleted directories accept no names")
            try files.remove(.text("moved"), in: root, directory: false)
            #expect(errno { try files.remove(.text("moved"), in: root, directory: false) } == .noEntry)
        }
    }

    @Test("the lock of a directory is exclusive until its descriptor closes")
    func lock() throws {
        try both { files, path in
            let second = try {
                let first = try files.openDirectory(path: path + "/a", creation: .plain)
                let second = try files.openDirectory(path: path + "/a", creation: .plain)
                #expect(try files.lock(first))
                #expect(try !files.lock(second))
                return OwnedDescriptor(second)
            }()
            #expect(try files.lock(second.file))
        }
    }

    @Test("unlocking releases the lock even if a starting child process has a copy of the descriptor")
    func unlock() throws {
        try both { files, path in
            let first = try files.openDirectory(path: path + "/a", creation: .plain)
            let second = try files.openDirectory(path: path + "/a", creation: .plain)
            let copy = files is PosixFileSystem ? dup(first.raw) : -1
            defer { if copy >= 0 { close(copy) } }
            #expect(try files.lock(first))
            #expect(try !files.lock(second))
            files.unlock(first)
            #expect(try files.lock(second))
        }
    }

    @Test("a copy has the content up to a size, and never replaces a file")
    func copy() throws {
        // More than the megabyte that is copied at a time.
        let bytes = (0..<1_200_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        try both { files, path in
            let root = try files.openDirectory(path: path + "/copies", creation: .plain)
            do {
                let source = try files.open(.text("source"), in: root, for: .creating)
                try files.write(bytes, to: source, at: 0)
            }
            let source = try files.openFile(path: path + "/copies/source")
            for (name, size) in [("whole", bytes.count), ("part", 1_100_001), ("none", 0)] {
                let copy = try files.copy(source, size: size, as: .text(name), in: root, access: .owner)
                #expect(try files.status(of: copy).size == size)
                var read = [UInt8](repeating: 0, count: size + 1)
                #expect(try files.read(copy, at: 0, into: &read) == size)
                #expect(Data(read.prefix(size)) == Data(bytes.prefix(size)))
                try files.write([1], to: copy, at: size)
            }
            let longer = try files.copy(
                source, size: bytes.count + 5, as: .text("longer"), in: root, access: .everybody)
            #expect(try files.status(of: longer).size == bytes.count, "no bytes are invented")
            #expect(
                errno { try files.copy(source, size: 1, as: .text("part"), in: root, access: .owner) } == .exists)
            #expect(try files.status(of: .text("part"), in: root).size == 1_100_002, "the existing file is unchanged")
            #expect(errno { try files.openFile(path: path + "/copies/missing") } == .noEntry)
        }
    }

    @Test("there is some free space")
    func freeSpace() throws {
        try both { files, path in
            let root = try files.openDirectory(path: path, creation: .plain)
            #expect(try files.freeSpace(of: root) > 1 << 20)
        }
    }

    @Test("links are not followed, and other kinds of files are recognized")
    func links() throws {
        let home = try TemporaryDirectory()
        let files = PosixFileSystem()
        let root = try files.openDirectory(path: home.url.path, creation: .never)
        let link = home.appending("link").path
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "/etc/passwd")
        #expect(errno { try files.open(.text("link"), in: root, for: .reading) } == .notRegular)
        #expect(try files.openRegular(.text("link"), in: root) == nil)
        try #require(mkfifo(home.appending("fifo").path, 0o600) == 0)
        #expect(try files.openRegular(.text("fifo"), in: root) == nil)
        for use in [OpenUse.reading, .updating] {
            #expect(errno { try files.open(.text("fifo"), in: root, for: use) } == .notRegular, "not even opened")
        }
        #expect(try files.status(of: .text("link"), in: root).kind == .other)
        #expect(try files.openRegular(.text("no such"), in: root, orNil: .noEntry) == nil)
    }

    @Test(
        "in memory, a synced name of a renamed file survives a power cut, even if the directory it came from does not")
    func syncedRename() throws {
        let files = MemoryFileSystem()
        let old = try files.openDirectory(path: "/old", creation: .durable)
        let new = try files.openDirectory(path: "/new", creation: .durable)
        _ = try files.open(.text("a"), in: old, for: .creating)
        try files.rename(.text("a"), in: old, to: .text("b"), in: old)
        try files.rename(.text("b"), in: old, to: .text("c"), in: new)
        _ = try files.open(.text("lost"), in: old, for: .creating)
        try files.sync(new)
        for seed in 1...20 as ClosedRange<UInt64> {
            var generator = SeededGenerator(seed: seed)
            let image = files.imageAfterPowerCut(using: &generator)
            #expect(image.names(at: "/new") == ["c"] && image.names(at: "/old").allSatisfy { $0 == "lost" })
        }
    }
}

extension FileSystem {
    fileprivate func openRegular(
        _ name: FileName, in directory: borrowing FileDescriptor, orNil expected: Errno
    ) throws -> Bool? {
        do {
            return try openRegular(name, in: directory) != nil
        } catch {
            if error == expected { return nil }
            throw error
        }
    }
}
