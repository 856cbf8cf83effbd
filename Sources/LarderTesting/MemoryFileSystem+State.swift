import LarderFiles

extension MemoryFileSystem {
    struct State {
        var image: MemoryImage
        var durable: MemoryImage
        var unsynced: [MemoryImage.Change] = []
        var open: [Int32: UInt64] = [:]
        var nextDescriptor: Int32 = 3
        var nextNode: UInt64
        var locked: [UInt64: Int32] = [:]
        /// Since the last fault was injected.
        var calls = 0
        /// Since the file system was created.
        var counts: [Operation: Int] = [:]
        var bytesRead = 0
        var fault: (@Sendable (Int, Operation) -> Fault?)?
        var isDead = false
        /// Bytes that fit on the disk.
        var capacity = Int.max
        /// Whether a write that needs more than the capacity fails.
        var isCapacityEnforced = false
        /// The killed write has left its part.
        var hasTorn = false
        /// Directories that are known to have a name.
        var linked: Set<UInt64> = []
        /// Files that the disk cannot read.
        var unreadable: Set<UInt64> = []
        /// The limit of open descriptors, and their highest number so far.
        var mostOpen = Int.max
        var peakOpen = 0
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
        let size = image.nodes[file]?.content.count ?? 0
        let growth = MemoryImage.blocks(max(size, offset + count)) - MemoryImage.blocks(size)
        return growth <= 0 || growth <= capacity - image.usedSpace
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
