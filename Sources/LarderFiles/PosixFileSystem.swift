/// The real file system, through the calls of `Platform`.
package struct PosixFileSystem: FileSystem {
    /// Bytes per call. Linux transfers at most 0x7ffff000; a smaller round number works everywhere.
    private static let chunk = 1 << 30

    package init() {}

    package var boot: UInt64 { Platform.boot }

    package func openDirectory(path: String, creation: DirectoryCreation) throws(Errno) -> FileDescriptor {
        do {
            return FileDescriptor(raw: try Platform.openDirectory(path: path), of: self)
        } catch .noEntry where creation != .never {
            let failure = try makeDirectories(path: path, durably: creation == .durable)
            do {
                return FileDescriptor(raw: try Platform.openDirectory(path: path), of: self)
            } catch .noEntry {
                // The error of the creation is more useful than ENOENT.
                throw failure ?? .noEntry
            }
        }
    }

    /// Returns the last error. A directory that could not be created may still exist (EEXIST; EROFS or EACCES above a
    /// mount point).
    private func makeDirectories(path: String, durably: Bool) throws(Errno) -> Errno? {
        var failure: Errno?
        var parent = path.hasPrefix("/") ? "/" : "."
        for component in path.split(separator: "/") {
            let directory = parent + "/" + component
            do {
                try Platform.makeDirectory(directory, in: Platform.workingDirectory)
            } catch {
                if error != .exists, error != .noEntry { failure = error }
                parent = directory
                continue
            }
            if durably {
                let opened = FileDescriptor(raw: try Platform.openDirectory(path: parent), of: self)
                try sync(opened)
            }
            parent = directory
        }
        return failure
    }

    package func open(
        _ name: FileName, in directory: borrowing FileDescriptor, for use: OpenUse
    ) throws(Errno) -> FileDescriptor {
        let raw = directory.raw
        let opened = name.withCString { name in
            Result { () throws(Errno) in
                let flags = Platform.flags(use)
                return switch use {
                case .reading, .updating: try Platform.openRegular(name, in: raw, flags: flags)
                case .creating, .directory: try Platform.open(name, in: raw, flags: flags)
                }
            }
        }
        return FileDescriptor(raw: try opened.get(), of: self)
    }

    package func openFile(path: String) throws(Errno) -> FileDescriptor {
        FileDescriptor(raw: try Platform.openFile(path: path), of: self)
    }

    package func copy(
        _ source: borrowing FileDescriptor, size: Int, as name: FileName, in directory: borrowing FileDescriptor,
        access: FileAccess
    ) throws(Errno) -> FileDescriptor {
        let (from, to) = (source.raw, directory.raw)
        let opened = name.withCString { name in
            Result { () throws(Errno) in try Platform.cloneOrCreate(from, as: name, in: to, access) }
        }
        let (raw, isCloned) = try opened.get()
        let file = FileDescriptor(raw: raw, of: self)
        do {
            // A clone has the file's current size: cut it if the file has grown, but do not extend it if it has shrunk.
            if !isCloned {
                try fill(file, from: source, size)
            } else if try status(of: file).size > size {
                try truncate(file, to: size)
            }
        } catch {
            try? remove(name, in: directory, directory: false)
            throw error
        }
        return file
    }

    package func close(_ raw: Int32) {
        Platform.close(raw)
    }

    package func status(of file: borrowing FileDescriptor) throws(Errno) -> FileStatus {
        try Platform.status(raw: file.raw)
    }

    package func status(of name: FileName, in directory: borrowing FileDescriptor) throws(Errno) -> FileStatus {
        let raw = directory.raw
        return try name.withCString { name in
            Result { () throws(Errno) in try Platform.status(name, in: raw) }
        }.get()
    }

    package func content(of file: borrowing FileDescriptor, from offset: Int) -> Range<Int>? {
        Platform.content(of: file.raw, from: offset)
    }

    package func read(
        _ file: borrowing FileDescriptor, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(Errno) -> Int {
        var done = 0
        while done < buffer.count {
            let part = UnsafeMutableRawBufferPointer(rebasing: buffer[done..<min(buffer.count, done + Self.chunk)])
            let count = try Platform.read(file.raw, part, at: offset + done)
            if count == 0 { break }
            done += count
        }
        return done
    }

    package func write(
        _ head: UnsafeRawBufferPointer, _ tail: UnsafeRawBufferPointer, to file: borrowing FileDescriptor,
        at offset: Int
    ) throws(Errno) {
        let length = head.count + tail.count
        var done = 0
        while done < length {
            var first = head.part(min(done, head.count)..<head.count)
            var second = tail.part(max(0, done - head.count)..<tail.count)
            if first.isEmpty { swap(&first, &second) }
            if length - done > Self.chunk {
                first = first.part(0..<min(first.count, Self.chunk))
                second = .none
            }
            let count = try Platform.write(file.raw, first, second, at: offset + done)
            if count == 0 { throw .io }
            done += count
        }
    }

    package func truncate(_ file: borrowing FileDescriptor, to size: Int) throws(Errno) {
        try Platform.truncate(file.raw, to: size)
    }

    package func allocate(_ range: Range<Int>, for file: borrowing FileDescriptor) throws(Errno) {
        try Platform.allocate(file.raw, range)
    }

    package func sync(_ file: borrowing FileDescriptor) throws(Errno) {
        try Platform.sync(file.raw)
    }

    package func makeDirectory(_ name: FileName, in directory: borrowing FileDescriptor) throws(Errno) {
        let raw = directory.raw
        try name.withCString { name in
            Result { () throws(Errno) in try Platform.makeDirectory(name, in: raw) }
        }.get()
    }

    package func rename(
        _ name: FileName, in directory: borrowing FileDescriptor,
        to newName: FileName, in newDirectory: borrowing FileDescriptor
    ) throws(Errno) {
        let (from, to) = (directory.raw, newDirectory.raw)
        try name.withCString { name in
            newName.withCString { newName in
                Result { () throws(Errno) in try Platform.rename(name, in: from, to: newName, in: to) }
            }
        }.get()
    }

    package func remove(
        _ name: FileName, in directory: borrowing FileDescriptor, directory isDirectory: Bool
    ) throws(Errno) {
        let raw = directory.raw
        try name.withCString { name in
            Result { () throws(Errno) in try Platform.remove(name, in: raw, isDirectory: isDirectory) }
        }.get()
    }

    package func list(_ directory: borrowing FileDescriptor, _ body: (FileName, FileKind) -> Bool) throws(Errno) {
        let raw = directory.raw
        try Platform.list(raw) { name, kind throws(Errno) in
            if let kind { return body(FileName(name), kind) }
            do throws(Errno) {
                return body(FileName(name), try Platform.status(name, in: raw).kind)
            } catch .noEntry {
                // The file was removed meanwhile, or its name is not UTF-8 and so not ours.
                return body(FileName(name), .other)
            }
        }
    }

    package func freeSpace(of directory: borrowing FileDescriptor) throws(Errno) -> Int {
        try Platform.freeSpace(directory.raw)
    }

    package func lock(_ directory: borrowing FileDescriptor, shared: Bool) throws(Errno) -> Bool {
        try Platform.lock(directory.raw, shared: shared)
    }

    package var processID: Int32 { Platform.processID }

    package var userID: UInt32 { Platform.userID }

    package func give(_ file: borrowing FileDescriptor, to owner: FileOwner) throws(Errno) {
        try Platform.give(file.raw, to: owner)
    }

    package func unlock(_ directory: borrowing FileDescriptor) {
        Platform.unlock(directory.raw)
    }

    package func requireWritable(_ directory: borrowing FileDescriptor) throws(Errno) {
        try Platform.requireWritable(directory.raw)
    }

    package func pagePlace(of directory: borrowing FileDescriptor) throws(Errno) -> PagePlace? {
        try Platform.pagePlace(directory.raw)
    }

    package func sharedMemory() throws(Errno) -> FileDescriptor {
        let directory = try openDirectory(path: Platform.sharedMemory, creation: .never)
        guard try Platform.isInMemory(directory.raw) else { throw .noEntry }
        return directory
    }

    package func map(_ file: borrowing FileDescriptor, words: Int) throws(Errno) -> MappedWords {
        let length = words * MemoryLayout<UInt64>.size
        nonisolated(unsafe) let start = try Platform.map(file.raw, length: length)
        return MappedWords(guarding: start, count: words, length: length) {
            Platform.replaceWithZeros(start, length: length)
        }
    }

    package func lock(byte: Int, of file: borrowing FileDescriptor) throws(Errno) -> Bool {
        try Platform.lock(file.raw, byte: byte)
    }

    package func unlock(byte: Int, of file: borrowing FileDescriptor) {
        Platform.unlock(file.raw, byte: byte)
    }

    package func lockedByte(in bytes: Range<Int>, of file: borrowing FileDescriptor) throws(Errno) -> Int? {
        try Platform.lockedByte(file.raw, in: bytes)
    }
}

extension MappedWords {
    /// Words of this process alone, all zero. A child process that is forked from it finds zeros, too. Memory is taken
    /// where a word is used.
    package static func ofProcess(count: Int) throws(Errno) -> MappedWords {
        let length = count * MemoryLayout<UInt64>.size
        nonisolated(unsafe) let start = try Platform.mapZeros(length: length)
        return MappedWords(guarding: start, count: count, length: length) {}
    }

    /// Words in a mapping, which is taken away from forked children.
    fileprivate convenience init(
        guarding start: UnsafeMutableRawPointer, count: Int, length: Int, detach: @escaping @Sendable () -> Void
    ) {
        nonisolated(unsafe) let start = start
        ForkGuard.add(start, length: length)
        self.init(
            start, count: count, detach: detach,
            unmap: {
                ForkGuard.remove(start, length: length)
                Platform.unmap(start, length: length)
            })
    }
}
