import LarderFiles

extension MemoryFileSystem {
    /// The disk, and the part of one process.
    struct State {
        var image: MemoryImage
        var durable: MemoryImage
        var unsynced: [MemoryImage.Change] = []
        var nextDescriptor: Int32 = 3
        var nextNode: UInt64
        /// The descriptors through which a directory is locked, alone or shared.
        var locked: [UInt64: Set<Int32>] = [:]
        var isLockShared: Set<UInt64> = []
        /// The processes that have locked bytes of a file.
        var lockedBytes: [UInt64: [Int: Int]] = [:]
        /// The files that processes have mapped.
        var mapped: [UInt64: MappedFile] = [:]
        /// Bytes that fit on the disk.
        var capacity = Int.max
        /// Whether a write that needs more than the capacity fails.
        var isCapacityEnforced = false
        /// Directories that are known to have a name.
        var linked: Set<UInt64> = []
        /// Files that the disk cannot read.
        var unreadable: Set<UInt64> = []
        /// The process that is calling.
        var process: Process
        var nextProcess: Int

        init(image: MemoryImage, durable: MemoryImage, nextNode: UInt64, process: Process) {
            self.image = image
            self.durable = durable
            self.nextNode = nextNode
            self.process = process
            nextProcess = process.id + 1
        }
    }

    /// The part of the state that belongs to one process.
    struct Process {
        let id: Int
        var open: [Int32: UInt64] = [:]
        /// Since the last fault was injected.
        var calls = 0
        /// Since the file system was created.
        var counts: [Operation: Int] = [:]
        var bytesRead = 0
        var fault: (@Sendable (Int, Operation) -> Fault?)?
        /// Read without the disk's lock where words are accessed.
        let death: Flag
        var isDead: Bool { death.isSet }
        /// The killed write has left its part.
        var hasTorn = false
        /// The limit of open descriptors, and their highest number so far.
        var mostOpen = Int.max
        var peakOpen = 0

        init(id: Int, death: Flag = Flag()) {
            self.id = id
            self.death = death
        }
    }

    /// The words of a file that processes have mapped. They hold its content.
    final class MappedFile: Sendable {
        let count: Int
        nonisolated(unsafe) let start: UnsafeMutablePointer<UInt64>

        init(_ content: [UInt8], count: Int) {
            self.count = count
            start = .allocate(capacity: count)
            start.initialize(repeating: 0, count: count)
            replace(with: content)
        }

        func replace(with content: [UInt8]) {
            UnsafeMutableRawBufferPointer(start: start, count: count * 8).copyBytes(from: content.prefix(count * 8))
        }

        deinit {
            start.deallocate()
        }

        var bytes: [UInt8] { Array(UnsafeRawBufferPointer(start: start, count: count * 8)) }
    }

    /// The state of a disk, on which several processes work.
    final class Disk: Sendable {
        private let state: Lock<(current: State, others: [Int: Process])>

        init(_ state: State) {
            self.state = Lock((state, [:]))
        }

        /// Adds a process.
        func addProcess() -> Process {
            state.withLock { state in
                let process = Process(id: state.current.nextProcess)
                state.current.nextProcess += 1
                state.others[process.id] = process
                return process
            }
        }

        /// Runs `body` as a call of one process.
        func withLock<Result, Failure: Error>(
            as id: Int, _ body: (inout State) throws(Failure) -> Result
        ) throws(Failure) -> Result {
            try state.withLock { state throws(Failure) in
                if state.current.process.id != id, let process = state.others.removeValue(forKey: id) {
                    let other = state.current.process
                    state.others[other.id] = other
                    state.current.process = process
                }
                return try body(&state.current)
            }
        }

        /// Kills every process.
        func killAll() {
            state.withLock { state in
                state.current.die()
                for process in state.others.values { process.death.set() }
                state.current.locked = [:]
                state.current.lockedBytes = [:]
            }
        }
    }

    /// Access to the disk by one process.
    struct ProcessState: Sendable {
        let disk: Disk
        let id: Int
        let death: Flag

        init(_ disk: Disk, _ process: Process) {
            self.disk = disk
            id = process.id
            death = process.death
        }

        func withLock<Result, Failure: Error>(
            _ body: (inout State) throws(Failure) -> Result
        ) throws(Failure) -> Result {
            try disk.withLock(as: id, body)
        }
    }
}

extension MemoryFileSystem.State {
    /// Kills the process: its locks end.
    mutating func die() {
        process.death.set()
        for raw in process.open.keys { releaseLock(raw) }
        for node in lockedBytes.keys { lockedBytes[node] = lockedBytes[node]?.filter { $0.value != process.id } }
    }

    /// Releases the lock taken through a descriptor.
    mutating func releaseLock(_ raw: Int32) {
        guard let node = process.open[raw], locked[node]?.remove(raw) != nil else { return }
        if locked[node]?.isEmpty == true { locked[node] = nil }
    }

    /// Takes over the content of mapped files.
    mutating func writeBackMapped() {
        for (node, file) in mapped {
            guard let content = image.nodes[node]?.content, content.count >= file.count * 8 else { continue }
            image.nodes[node]?.content = file.bytes + content.dropFirst(file.count * 8)
        }
    }

    /// Lets mapped files show their content again.
    mutating func readBackMapped() {
        for (node, file) in mapped {
            guard let content = image.nodes[node]?.content, content.count >= file.count * 8 else { continue }
            file.replace(with: content)
        }
    }

    mutating func change(_ change: MemoryImage.Change) {
        switch change {
        case .write, .truncate, .link: break
        case .unlink(let directory, let name), .rename(let directory, let name, _, _):
            let node = image.nodes[directory]?.children[name].flatMap { image.nodes[$0] }
            if node?.isDirectory == true { linked = [] }
        }
        image.apply(change)
        unsynced.append(change)
    }

    mutating func sync(_ node: UInt64) {
        var synced = Set(unsynced.indices.filter { unsynced[$0].belongs(to: node) })
        // A file that was renamed is not on the disk under its new name before it is there at all.
        for position in unsynced.indices.reversed() where synced.contains(position) {
            guard case .rename(let directory, let name, _, _) = unsynced[position],
                let origin = unsynced[..<position].lastIndex(where: { $0.creates(name, in: directory) })
            else { continue }
            synced.insert(origin)
        }
        for position in synced.sorted() { durable.apply(unsynced[position]) }
        unsynced = unsynced.indices.filter { !synced.contains($0) }.map { unsynced[$0] }
    }

    /// Returns whether there are blocks left for a write.
    func hasRoom(for count: Int, at offset: Int, in file: UInt64) -> Bool {
        guard isCapacityEnforced else { return true }
        let space = image.nodes[file]?.space ?? 0
        let growth = MemoryImage.blocks(offset + count) - space
        return growth <= 0 || growth <= capacity - image.usedSpace
    }

    func node(_ file: borrowing FileDescriptor) throws(Errno) -> UInt64 {
        guard let node = process.open[file.raw] else { throw .badDescriptor }
        return node
    }

    func child(_ name: FileName, _ directory: borrowing FileDescriptor) throws(Errno) -> UInt64 {
        if name == .text(".") { return try node(directory) }
        guard let node = image.nodes[try node(directory)]?.children[name.description] else { throw .noEntry }
        return node
    }

    mutating func descriptor(_ node: UInt64) throws(Errno) -> Int32 {
        if process.open.count >= process.mostOpen { throw .tooManyOpenFiles }
        defer { nextDescriptor += 1 }
        process.open[nextDescriptor] = node
        process.peakOpen = max(process.peakOpen, process.open.count)
        return nextDescriptor
    }

    /// Creates a node with a name. As on a real disk, a deleted directory accepts no more names.
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
