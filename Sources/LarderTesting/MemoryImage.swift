import LarderFiles

/// The content of a file system in memory, as on a disk.
package struct MemoryImage: Sendable {
    package struct Node: Sendable {
        package var isDirectory: Bool
        package var content: [UInt8] = []
        package var children: [String: UInt64] = [:]
        /// The bytes whose blocks were allocated in advance.
        package var allocated = 0
        /// It has no name any more.
        package var isUnlinked = false

        /// The bytes that it takes: whole blocks of 4 KiB.
        var space: Int { MemoryImage.blocks(max(content.count, allocated)) }

        /// Writes in place, after zeros where the content ends before.
        fileprivate mutating func write(_ bytes: [UInt8], at offset: Int) {
            if content.count < offset {
                content.append(contentsOf: repeatElement(0, count: offset - content.count))
            }
            let end = min(offset + bytes.count, content.count)
            content.replaceSubrange(offset..<end, with: bytes)
        }

        /// Cuts the content, or lengthens it by zeros. Gives back the blocks that were allocated in advance.
        fileprivate mutating func resize(_ size: Int) {
            if size < content.count { content.removeSubrange(size...) }
            if size > content.count { content.append(contentsOf: repeatElement(0, count: size - content.count)) }
            allocated = 0
        }
    }

    package static let root: UInt64 = 1

    package var nodes: [UInt64: Node] = [root: Node(isDirectory: true)]
    /// Counts the power cuts.
    package var boot: UInt64 = 1
    /// The directory of the shared memory of the system, where the disk copies blocks on write; nil: it does not.
    package var memory: String?

    package init() {}

    /// One change to the image, which a power cut may lose.
    package enum Change: Sendable {
        case write(file: UInt64, offset: Int, bytes: [UInt8])
        case truncate(file: UInt64, size: Int)
        case link(directory: UInt64, name: String, node: UInt64, isDirectory: Bool)
        case unlink(directory: UInt64, name: String)
        case rename(directory: UInt64, name: String, toDirectory: UInt64, newName: String)

        /// True when syncing the file or directory makes the change durable.
        func belongs(to node: UInt64) -> Bool {
            switch self {
            case .write(let file, _, _), .truncate(let file, _): file == node
            case .link(let directory, _, _, _), .unlink(let directory, _): directory == node
            case .rename(let directory, _, let toDirectory, _): directory == node || toDirectory == node
            }
        }

        /// True when the name is there after the change.
        func creates(_ name: String, in directory: UInt64) -> Bool {
            switch self {
            case .link(directory, name, _, _), .rename(_, _, directory, name): true
            default: false
            }
        }
    }

    package mutating func apply(_ change: Change) {
        switch change {
        case .write(let file, let offset, let bytes):
            nodes[file, default: Node(isDirectory: false)].write(bytes, at: offset)
        case .truncate(let file, let size):
            nodes[file, default: Node(isDirectory: false)].resize(size)
        case .link(let directory, let name, let node, let isDirectory):
            if nodes[node] == nil { nodes[node] = Node(isDirectory: isDirectory) }
            nodes[node]?.isUnlinked = false
            nodes[directory, default: Node(isDirectory: true)].children[name] = node
        case .unlink(let directory, let name):
            if let node = nodes[directory]?.children.removeValue(forKey: name) { nodes[node]?.isUnlinked = true }
        case .rename(let directory, let name, let toDirectory, let newName):
            // As on a real disk, a directory never replaces one that is not empty.
            let target = nodes[toDirectory]?.children[newName].flatMap { nodes[$0] }
            if target?.children.isEmpty == false { return }
            guard let node = nodes[directory]?.children.removeValue(forKey: name) else { return }
            let replaced = nodes[toDirectory]?.children[newName]
            nodes[toDirectory, default: Node(isDirectory: true)].children[newName] = node
            if let replaced, replaced != node { nodes[replaced]?.isUnlinked = true }
        }
    }

    /// Bytes that the files with a name take, in blocks.
    package var usedSpace: Int {
        Set(nodes.values.flatMap(\.children.values)).reduce(0) { sum, node in
            sum + (nodes[node]?.space ?? 0)
        }
    }

    static func blocks(_ size: Int) -> Int { (size + 4095) / 4096 * 4096 }

    /// Returns the node at a path; nil when there is none.
    package func node(at path: String) -> UInt64? {
        path.split(separator: "/").reduce(Self.root) { node, name in
            node.flatMap { nodes[$0]?.children[String(name)] }
        }
    }

    /// Returns the names in a directory, sorted.
    package func names(at path: String) -> [String] {
        (node(at: path).flatMap { nodes[$0]?.children.keys.sorted() }) ?? []
    }

    package func content(at path: String) -> [UInt8]? {
        node(at: path).flatMap { nodes[$0]?.content }
    }

    /// Replaces the content of an existing file.
    package mutating func setContent(_ content: [UInt8], at path: String) {
        guard let node = node(at: path) else { return }
        nodes[node]?.content = content
    }

    /// Flips a bit of an existing file that is not empty, in the byte that `position` chooses, given the size.
    mutating func flipBit(at path: String, _ position: (_ size: Int) -> Int) {
        guard var content = content(at: path), !content.isEmpty else { return }
        content[position(content.count)] ^= 1
        setContent(content, at: path)
    }

    /// A number that no node has.
    var nextNode: UInt64 { (nodes.keys.max() ?? Self.root) + 1 }

    /// Adds a file to an existing directory.
    package mutating func add(_ content: [UInt8], at path: String) {
        let parts = path.split(separator: "/")
        guard let name = parts.last, let parent = node(at: parts.dropLast().joined(separator: "/")) else { return }
        let node = nextNode
        apply(.link(directory: parent, name: String(name), node: node, isDirectory: false))
        nodes[node]?.content = content
    }

    func hasNode(at path: String) -> Bool { node(at: path) != nil }

    /// Creates a directory in an existing one.
    package mutating func addDirectory(at path: String) {
        let parts = path.split(separator: "/")
        guard let name = parts.last, let parent = node(at: parts.dropLast().joined(separator: "/")) else { return }
        let node = nextNode
        apply(.link(directory: parent, name: String(name), node: node, isDirectory: true))
    }

    /// Copies a file.
    package mutating func copy(_ path: String, to target: String) {
        add(content(at: path) ?? [], at: target)
    }

    package mutating func remove(at path: String) {
        let parts = path.split(separator: "/")
        guard let name = parts.last, let parent = node(at: parts.dropLast().joined(separator: "/")) else { return }
        if let node = nodes[parent]?.children.removeValue(forKey: String(name)) { nodes[node]?.isUnlinked = true }
    }
}
