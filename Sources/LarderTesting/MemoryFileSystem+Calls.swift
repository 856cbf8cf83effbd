package import LarderFiles

extension MemoryFileSystem: FileSystem {
    package var boot: UInt64 { image.boot }

    package func openDirectory(path: String, creation: DirectoryCreation) throws(Errno) -> FileDescriptor {
        let raw = try call(.openDirectory) { state throws(Errno) in
            var node = MemoryImage.root
            for name in path.split(separator: "/") {
                if let child = state.image.nodes[node]?.children[String(name)] {
                    node = child
                } else if creation != .never {
                    let parent = node
                    node = try state.make(.text(String(name)), in: parent, isDirectory: true)
                    if creation == .durable { state.sync(parent) }
                } else {
                    throw .noEntry
                }
            }
            guard state.image.nodes[node]?.isDirectory == true else { throw .notDirectory }
            return try state.descriptor(node)
        }
        return FileDescriptor(raw: raw, of: self)
    }

    package func openFile(path: String) throws(Errno) -> FileDescriptor {
        let raw = try call(.open) { state throws(Errno) in
            guard let node = state.image.node(at: path) else { throw .noEntry }
            return try state.descriptor(node)
        }
        return FileDescriptor(raw: raw, of: self)
    }

    package func copy(
        _ source: borrowing FileDescriptor, size: Int, as name: FileName, in directory: borrowing FileDescriptor,
        access: FileAccess
    ) throws(Errno) -> FileDescriptor {
        let file = try open(name, in: directory, for: .creating)
        do {
            var bytes = [UInt8](repeating: 0, count: size)
            let count = try read(source, at: 0, into: &bytes)
            try write(Array(bytes.prefix(count)), to: file, at: 0)
        } catch {
            try? remove(name, in: directory, directory: false)
            throw error
        }
        return file
    }

    package func open(
        _ name: FileName, in directory: borrowing FileDescriptor, for use: OpenUse
    ) throws(Errno) -> FileDescriptor {
        let raw =
            switch use {
            case .creating:
                try call(.create, name) { state throws(Errno) in
                    if state.process.open.count >= state.process.mostOpen { throw .tooManyOpenFiles }
                    return try state.descriptor(try state.make(name, in: try state.node(directory), isDirectory: false))
                }
            case .reading, .updating, .directory:
                try call(.open, name) { state throws(Errno) in
                    let node = try state.child(name, directory)
                    let isDirectory = state.image.nodes[node]?.isDirectory == true
                    if case .directory = use {
                        if !isDirectory { throw .notDirectory }
                    } else if isDirectory {
                        throw .notRegular
                    }
                    return try state.descriptor(node)
                }
            }
        return FileDescriptor(raw: raw, of: self)
    }

    package func close(_ raw: Int32) {
        state.withLock { state in
            state.releaseLock(raw)
            guard let node = state.process.open.removeValue(forKey: raw) else { return }
            // As POSIX has it: closing any descriptor of the file ends the locks of its bytes.
            let id = state.process.id
            state.lockedBytes[node] = state.lockedBytes[node]?.filter { $0.value != id }
        }
    }

    package func status(of file: borrowing FileDescriptor) throws(Errno) -> FileStatus {
        try call(.status) { state throws(Errno) in status(try state.node(file), state) }
    }

    package func status(of name: FileName, in directory: borrowing FileDescriptor) throws(Errno) -> FileStatus {
        try call(.status) { state throws(Errno) in status(try state.child(name, directory), state) }
    }

    private func status(_ number: UInt64, _ state: State) -> FileStatus {
        let node = state.image.nodes[number]
        return FileStatus(
            kind: node?.isDirectory == true ? .directory : .regular, size: node?.content.count ?? 0,
            identity: FileIdentity(device: device, inode: number), links: node?.isUnlinked == true ? 0 : 1,
            owner: FileOwner(user: userID, group: userID), isWritableByOthers: false)
    }

    package func content(of file: borrowing FileDescriptor, from offset: Int) -> Range<Int>? { offset..<Int.max }

    package func read(
        _ file: borrowing FileDescriptor, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(Errno) -> Int {
        awaitTurn()
        return try call(.read) { state throws(Errno) in
            let node = try state.node(file)
            if state.unreadable.contains(node) { throw .io }
            if state.mapped[node] != nil { state.writeBackMapped() }
            let content = state.image.nodes[node]?.content ?? []
            let part = content.dropFirst(offset).prefix(buffer.count)
            buffer.copyBytes(from: part)
            state.process.bytesRead += part.count
            return part.count
        }
    }

    package func write(
        _ head: UnsafeRawBufferPointer, _ tail: UnsafeRawBufferPointer, to file: borrowing FileDescriptor,
        at offset: Int
    ) throws(Errno) {
        let bytes = Array(head) + Array(tail)
        var hasRoom = true
        do {
            try call(.write) { state throws(Errno) in
                let node = try state.node(file)
                hasRoom = state.hasRoom(for: bytes.count, at: offset, in: node)
                if !hasRoom { throw .noSpace }
                state.change(.write(file: node, offset: offset, bytes: bytes))
            }
        } catch {
            if !hasRoom { throw error }
            // A failed or killed write may have written a part, whose length follows from the write's length and the
            // number of calls.
            state.withLock { state in
                guard let node = state.process.open[file.raw], !state.process.hasTorn else { return }
                state.process.hasTorn = state.process.isDead
                let kept = bytes.isEmpty ? 0 : (state.process.calls * 7919) % (bytes.count + 1)
                if kept > 0 { state.change(.write(file: node, offset: offset, bytes: Array(bytes.prefix(kept)))) }
            }
            throw error
        }
    }

    package func truncate(_ file: borrowing FileDescriptor, to size: Int) throws(Errno) {
        try call(.truncate) { state throws(Errno) in
            state.change(.truncate(file: try state.node(file), size: size))
        }
    }

    package func allocate(_ range: Range<Int>, for file: borrowing FileDescriptor) throws(Errno) {
        try call(.allocate) { state throws(Errno) in
            let node = try state.node(file)
            guard state.hasRoom(for: range.count, at: range.lowerBound, in: node) else { throw .noSpace }
            state.image.nodes[node]?.allocated = range.upperBound
        }
    }

    package func sync(_ file: borrowing FileDescriptor) throws(Errno) {
        try call(.sync) { state throws(Errno) in state.sync(try state.node(file)) }
    }

    package func makeDirectory(_ name: FileName, in directory: borrowing FileDescriptor) throws(Errno) {
        _ = try call(.makeDirectory, name) { state throws(Errno) in
            try state.make(name, in: try state.node(directory), isDirectory: true)
        }
    }

    package func rename(
        _ name: FileName, in directory: borrowing FileDescriptor,
        to newName: FileName, in newDirectory: borrowing FileDescriptor
    ) throws(Errno) {
        try call(.rename, name) { state throws(Errno) in
            _ = try state.child(name, directory)
            state.change(
                .rename(
                    directory: try state.node(directory), name: name.description,
                    toDirectory: try state.node(newDirectory), newName: newName.description))
        }
    }

    package func remove(
        _ name: FileName, in directory: borrowing FileDescriptor, directory isDirectory: Bool
    ) throws(Errno) {
        try call(.remove, name) { state throws(Errno) in
            let node = state.image.nodes[try state.child(name, directory)]
            guard node?.isDirectory == isDirectory else { throw isDirectory ? .notDirectory : .isDirectory }
            guard node?.children.isEmpty != false else { throw .directoryNotEmpty }
            state.change(.unlink(directory: try state.node(directory), name: name.description))
        }
    }

    package func list(_ directory: borrowing FileDescriptor, _ body: (FileName, FileKind) -> Bool) throws(Errno) {
        let children = try call(.list) { state throws(Errno) in
            (state.image.nodes[try state.node(directory)]?.children ?? [:]).map { name, node in
                (name, state.image.nodes[node]?.isDirectory == true ? FileKind.directory : .regular)
            }
        }
        // As on a real disk, in any order: here in that of the seed.
        var generator = SeededGenerator(seed: Simulation.randomNumber())
        let names = children.sorted { $0.0 < $1.0 }.shuffled(using: &generator).map { (FileName($0), $1) }
        for (name, kind) in names where !body(name, kind) { return }
    }

    package func freeSpace(of directory: borrowing FileDescriptor) throws(Errno) -> Int {
        try call(.status) { state throws(Errno) in
            _ = try state.node(directory)
            return max(0, state.capacity - state.image.usedSpace)
        }
    }

    package func lock(_ directory: borrowing FileDescriptor, shared: Bool) throws(Errno) -> Bool {
        try call(.lock) { state throws(Errno) in
            let node = try state.node(directory)
            let holders = state.locked[node] ?? []
            let isAlone = holders.subtracting([directory.raw]).isEmpty
            guard isAlone || shared && state.isLockShared.contains(node) else { return false }
            state.locked[node, default: []].insert(directory.raw)
            if shared { state.isLockShared.insert(node) } else { state.isLockShared.remove(node) }
            return true
        }
    }

    package var processID: Int32 { Int32(state.id) }

    /// One user has the whole disk.
    package var userID: UInt32 { 1000 }

    package func give(_ file: borrowing FileDescriptor, to owner: FileOwner) throws(Errno) {}

    package func unlock(_ directory: borrowing FileDescriptor) {
        let raw = directory.raw
        state.withLock { $0.releaseLock(raw) }
    }

    package func requireWritable(_ directory: borrowing FileDescriptor) throws(Errno) {}

    package func pagePlace(of directory: borrowing FileDescriptor) throws(Errno) -> PagePlace? {
        state.withLock { $0.image.memory == nil ? .directory : .memory }
    }

    package func sharedMemory() throws(Errno) -> FileDescriptor {
        let path = try state.withLock { state throws(Errno) -> String in
            guard let path = state.image.memory else { throw .noEntry }
            if !state.image.hasNode(at: path) {
                _ = try state.make(.text(String(path.dropFirst())), in: MemoryImage.root, isDirectory: true)
            }
            return path
        }
        return try openDirectory(path: path, creation: .never)
    }

    package func map(_ file: borrowing FileDescriptor, words: Int) throws(Errno) -> MappedWords {
        let mapped = try call(.open) { state throws(Errno) in
            let node = try state.node(file)
            if let known = state.mapped[node] { return known }
            let content = state.image.nodes[node]?.content ?? []
            if content.count < words * 8 { throw .invalid }
            let mapped = MappedFile(content, count: words)
            state.mapped[node] = mapped
            return mapped
        }
        return MappedWords(mapped.start, count: words, willAccess: { [self] in mayAccess($0) }) {
            withExtendedLifetime(mapped) {}
        }
    }

    /// False when the process is dead.
    private func mayAccess(_ position: Int) -> Bool {
        if countsAccesses.isSet { _ = try? call(.access, position) { _ in } }
        return !isDead
    }

    package func lock(byte: Int, of file: borrowing FileDescriptor) throws(Errno) -> Bool {
        try call(.lock) { state throws(Errno) in
            let node = try state.node(file)
            let id = state.process.id
            if let owner = state.lockedBytes[node]?[byte], owner != id { return false }
            state.lockedBytes[node, default: [:]][byte] = id
            return true
        }
    }

    package func unlock(byte: Int, of file: borrowing FileDescriptor) {
        let raw = file.raw
        state.withLock { state in
            guard let node = state.process.open[raw], state.lockedBytes[node]?[byte] == state.process.id else { return }
            state.lockedBytes[node]?[byte] = nil
        }
    }

    package func lockedByte(in bytes: Range<Int>, of file: borrowing FileDescriptor) throws(Errno) -> Int? {
        try call(.lock) { state throws(Errno) in
            let node = try state.node(file)
            let id = state.process.id
            return state.lockedBytes[node]?.filter { bytes.contains($0.key) && $0.value != id }.keys.min()
        }
    }
}
