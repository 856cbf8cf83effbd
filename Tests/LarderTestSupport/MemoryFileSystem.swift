import Foundation
package import LarderFiles

/// A file system in memory whose calls can fail, tear, stop for ever, or lose what was not synced.
package final class MemoryFileSystem: Sendable {
    package enum Operation: Sendable {
        case openDirectory, open, create, status, read, write, truncate, sync, makeDirectory, rename, remove, list, lock
    }

    package enum Fault: Sendable {
        case fail(Errno)
        /// The process is killed inside this call: a write is torn, anything else does not happen, and nothing happens
        /// after.
        case kill
    }

    fileprivate struct State {
        var image: MemoryImage
        var durable: MemoryImage
        var unsynced: [MemoryImage.Change] = []
        var open: [Int32: UInt64] = [:]
        var nextDescriptor: Int32 = 3
        var nextNode: UInt64
        var locked: [UInt64: Int32] = [:]
        var calls = 0
        var fault: (@Sendable (Int, Operation) -> Fault?)?
        var isDead = false
        /// Bytes that fit on the disk.
        var capacity = Int.max
        /// The killed write has left its part.
        var hasTorn = false
        /// Directories that are known to have a name.
        var linked: Set<UInt64> = []
        /// Files that the disk cannot read.
        var unreadable: Set<UInt64> = []
        /// Descriptors that may be open at a time, and that were.
        var mostOpen = Int.max
        var peakOpen = 0
    }

    private static let devices = Lock(UInt64(1) << 40)

    private let state: Lock<State>
    private let device: UInt64
    /// Taken by a reader while other threads' reads are held.
    private let turnstile = DispatchSemaphore(value: 1)
    private let isHolding = Flag()
    private let holder = Lock<ObjectIdentifier?>(nil)

    package init(_ image: MemoryImage = MemoryImage()) {
        device = Self.devices.withLock { device in
            device += 1
            return device
        }
        state = Lock(State(image: image, durable: image, nextNode: (image.nodes.keys.max() ?? 1) + 1))
    }

    /// Calls made so far.
    package var calls: Int { state.withLock { $0.calls } }

    package var image: MemoryImage { state.withLock { $0.image } }

    /// Makes the disk larger or smaller; all that is kept of it is what `freeSpace` says. A file takes whole blocks.
    package func setCapacity(_ bytes: Int) {
        state.withLock { $0.capacity = bytes }
    }

    package var freeSpace: Int { state.withLock { $0.capacity - $0.image.usedSpace } }

    /// Open descriptors: none may be left when a cache has gone.
    package var openCount: Int { state.withLock { $0.open.count } }

    /// The most descriptors that were open at a time.
    package var peakOpenCount: Int { state.withLock { $0.peakOpen } }

    /// From now on opening fails with EMFILE when so many descriptors are open.
    package func limitDescriptors(to most: Int) {
        state.withLock { state in
            state.mostOpen = most
            state.peakOpen = state.open.count
        }
    }

    /// From now on reading a file fails with EIO, or works again.
    package func setUnreadable(_ isUnreadable: Bool, at path: String) {
        state.withLock { state in
            guard let node = state.image.node(at: path) else { return }
            if isUnreadable { state.unreadable.insert(node) } else { state.unreadable.remove(node) }
        }
    }

    /// Runs `body` while reads of other threads wait: what is done in the background gets no further than its next
    /// read.
    package func holdingOtherReaders<Result>(_ body: () throws -> Result) rethrows -> Result {
        turnstile.wait()
        holder.withLock { $0 = ObjectIdentifier(Thread.current) }
        isHolding.set()
        defer {
            isHolding.set(false)
            turnstile.signal()
        }
        return try body()
    }

    private func awaitTurn() {
        guard isHolding.isSet, holder.withLock({ $0 }) != ObjectIdentifier(Thread.current) else { return }
        turnstile.wait()
        turnstile.signal()
    }

    /// From now on asks `fault` before each call; calls are counted from 1 again.
    package func inject(_ fault: (@Sendable (_ call: Int, Operation) -> Fault?)?) {
        state.withLock { state in
            state.calls = 0
            state.fault = fault
        }
    }

    /// What the process has written is on the disk now, as after the system's own write-back.
    package func syncAll() {
        state.withLock { state in
            state.durable = state.image
            state.unsynced = []
        }
    }

    /// What a disk may hold after the power went: all that was synced and, of what was not, any part in any order.
    package func imageAfterPowerCut(using generator: inout SeededGenerator) -> MemoryImage {
        var (image, changes) = state.withLock { ($0.durable, $0.unsynced) }
        let survival = [0, 10, 50, 90, 100].randomElement(using: &generator) ?? 50
        for change in changes where generator.chance(survival) {
            if case .write(let file, let offset, let bytes) = change, generator.chance(30) {
                let kept = Int.random(in: 0...bytes.count, using: &generator)
                // The size reached the disk, the tail did not.
                let tail = generator.chance(50) ? [UInt8](repeating: 0, count: bytes.count - kept) : []
                image.apply(.write(file: file, offset: offset, bytes: bytes.prefix(kept) + tail))
            } else {
                image.apply(change)
            }
        }
        return image
    }

    private func call<Result>(
        _ operation: Operation, _ body: (inout State) throws(Errno) -> Result
    ) throws(Errno) -> Result {
        try state.withLock { state throws(Errno) in
            if state.isDead { throw .io }
            state.calls += 1
            switch state.fault?(state.calls, operation) {
            case nil: return try body(&state)
            case .fail(let error): throw error
            case .kill:
                state.isDead = true
                throw .io
            }
        }
    }
}

extension MemoryFileSystem.State {
    mutating func change(_ change: MemoryImage.Change) {
        switch change {
        case .write, .truncate, .link: break
        case .unlink, .rename: linked = []
        }
        image.apply(change)
        unsynced.append(change)
    }

    mutating func sync(_ node: UInt64) {
        for change in unsynced where change.belongs(to: node) { durable.apply(change) }
        unsynced.removeAll { $0.belongs(to: node) }
    }

    func node(_ file: borrowing FileDescriptor) throws(Errno) -> UInt64 {
        guard let node = open[file.raw] else { throw .badDescriptor }
        return node
    }

    func child(_ name: FileName, _ directory: borrowing FileDescriptor) throws(Errno) -> UInt64 {
        if name == .text(".") { return try node(directory) }
        guard let node = image.nodes[try node(directory)]?.children[name.description] else { throw .noEntry }
        return node
    }

    mutating func descriptor(_ node: UInt64) throws(Errno) -> Int32 {
        if open.count >= mostOpen { throw .tooManyOpenFiles }
        defer { nextDescriptor += 1 }
        open[nextDescriptor] = node
        peakOpen = max(peakOpen, open.count)
        return nextDescriptor
    }

    /// Makes a node with a name. True to a real directory: one that has been deleted takes no more names.
    mutating func make(_ name: FileName, in directory: UInt64, isDirectory: Bool) throws(Errno) -> UInt64 {
        guard isLinked(directory) else { throw .noEntry }
        guard image.nodes[directory]?.children[name.description] == nil else { throw .exists }
        defer { nextNode += 1 }
        change(.link(directory: directory, name: name.description, node: nextNode, isDirectory: isDirectory))
        return nextNode
    }

    private mutating func isLinked(_ directory: UInt64) -> Bool {
        if directory == MemoryImage.root || linked.contains(directory) { return true }
        let isLinked = image.nodes.values.contains { $0.children.values.contains(directory) }
        if isLinked { linked.insert(directory) }
        return isLinked
    }
}

extension MemoryFileSystem: FileSystem {
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
                try call(.create) { state throws(Errno) in
                    if state.open.count >= state.mostOpen { throw .tooManyOpenFiles }
                    return try state.descriptor(try state.make(name, in: try state.node(directory), isDirectory: false))
                }
            case .reading, .updating, .directory:
                try call(.open) { state throws(Errno) in
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
            if let node = state.open.removeValue(forKey: raw), state.locked[node] == raw { state.locked[node] = nil }
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
            identity: FileIdentity(device: device, inode: number))
    }

    package func read(
        _ file: borrowing FileDescriptor, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(Errno) -> Int {
        awaitTurn()
        return try call(.read) { state throws(Errno) in
            let node = try state.node(file)
            if state.unreadable.contains(node) { throw .io }
            let content = state.image.nodes[node]?.content ?? []
            let part = content.dropFirst(offset).prefix(buffer.count)
            buffer.copyBytes(from: part)
            return part.count
        }
    }

    package func write(
        _ head: UnsafeRawBufferPointer, _ tail: UnsafeRawBufferPointer, to file: borrowing FileDescriptor,
        at offset: Int
    ) throws(Errno) {
        let bytes = Array(head) + Array(tail)
        do {
            try call(.write) { state throws(Errno) in
                state.change(.write(file: try state.node(file), offset: offset, bytes: bytes))
            }
        } catch {
            // A failed or killed write may have written a part. Which one follows from its length and the count of
            // calls.
            state.withLock { state in
                guard let node = state.open[file.raw], !state.hasTorn else { return }
                state.hasTorn = state.isDead
                let kept = bytes.isEmpty ? 0 : (state.calls * 7919) % (bytes.count + 1)
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

    package func sync(_ file: borrowing FileDescriptor) throws(Errno) {
        try call(.sync) { state throws(Errno) in state.sync(try state.node(file)) }
    }

    package func makeDirectory(_ name: FileName, in directory: borrowing FileDescriptor) throws(Errno) {
        _ = try call(.makeDirectory) { state throws(Errno) in
            try state.make(name, in: try state.node(directory), isDirectory: true)
        }
    }

    package func rename(
        _ name: FileName, in directory: borrowing FileDescriptor,
        to newName: FileName, in newDirectory: borrowing FileDescriptor
    ) throws(Errno) {
        try call(.rename) { state throws(Errno) in
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
        try call(.remove) { state throws(Errno) in
            let node = state.image.nodes[try state.child(name, directory)]
            guard node?.isDirectory == isDirectory else { throw isDirectory ? .notDirectory : .isDirectory }
            guard node?.children.isEmpty != false else { throw .directoryNotEmpty }
            state.change(.unlink(directory: try state.node(directory), name: name.description))
        }
    }

    package func list(_ directory: borrowing FileDescriptor, _ body: (FileName, FileKind) -> Bool) throws(Errno) {
        let names = try call(.list) { state throws(Errno) in
            (state.image.nodes[try state.node(directory)]?.children ?? [:]).map { name, node in
                (FileName(name), state.image.nodes[node]?.isDirectory == true ? FileKind.directory : .regular)
            }
        }
        for (name, kind) in names where !body(name, kind) { return }
    }

    package func freeSpace(of directory: borrowing FileDescriptor) throws(Errno) -> Int {
        try call(.status) { state throws(Errno) in
            _ = try state.node(directory)
            return max(0, state.capacity - state.image.usedSpace)
        }
    }

    package func lock(_ directory: borrowing FileDescriptor) throws(Errno) -> Bool {
        try call(.lock) { state throws(Errno) in
            let node = try state.node(directory)
            if let owner = state.locked[node], owner != directory.raw { return false }
            state.locked[node] = directory.raw
            return true
        }
    }

    package func unlock(_ directory: borrowing FileDescriptor) {
        let raw = directory.raw
        state.withLock { state in
            if let node = state.open[raw], state.locked[node] == raw { state.locked[node] = nil }
        }
    }
}
