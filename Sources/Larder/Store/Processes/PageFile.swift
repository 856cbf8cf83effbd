import LarderFiles

/// The file that has the page.
///
/// It is `shared` itself. On a disk that copies blocks when they are written it is in the shared memory of the system:
/// once such a disk is full, a store to a mapped block would end the process. `shared` then has a mark and the name of
/// that file; the locks are those of `shared` in any case.
struct PageFile {
    let fileSystem: any FileSystem
    let shared: OwnedDescriptor
    let place: PagePlace

    /// A file in the shared memory of the system.
    struct Memory {
        let directory: OwnedDescriptor
        let name: FileName
        let file: OwnedDescriptor
    }

    /// Bytes.
    private static let nameLength = 16

    /// Returns a copy of the page that dead processes have left, in memory of this process; nil when there is none.
    func left() -> PeerPage? {
        if let page = try? copy(of: shared) { return page }
        return (try? memory(for: .reading)).flatMap { memory in memory.flatMap { try? copy(of: $0.file) } }
    }

    private func copy(of file: OwnedDescriptor) throws(Errno) -> PeerPage? {
        var bytes = [UInt8](repeating: 0, count: PeerPage.size)
        guard try fileSystem.read(file.file, at: 0, into: &bytes) == bytes.count else { return nil }
        return PeerPage(copying: bytes)
    }

    /// Makes the page for the first process. `inode`: that of `shared`.
    func make(for inode: UInt64) throws(Errno) -> (page: PeerPage, memory: Memory?) {
        guard place == .memory else {
            try allocate(shared)
            return (PeerPage(words: try fileSystem.map(shared.file, words: PeerPage.wordCount)), nil)
        }
        let left = try found(for: inode)
        let memory = if let left { left } else { try made() }
        do throws(Errno) {
            try allocate(memory.file)
            return (PeerPage(words: try fileSystem.map(memory.file.file, words: PeerPage.wordCount)), memory)
        } catch {
            // A page that dead processes have left stays: it has the lengths of their journals.
            if left == nil { try? fileSystem.remove(memory.name, in: memory.directory.file, directory: false) }
            throw error
        }
    }

    /// The file that an earlier session has made. That of the original of a copied directory is not ours.
    private func found(for inode: UInt64) throws(Errno) -> Memory? {
        guard let memory = try memory(), let page = try copy(of: memory.file), page.isIn(inode) else { return nil }
        return memory
    }

    /// A new file, under a name that nobody can know before. Its name is in `shared` before the page is used.
    private func made() throws(Errno) -> Memory {
        let directory = OwnedDescriptor(try fileSystem.sharedMemory())
        let bytes = [Simulation.randomNumber(), Simulation.randomNumber()].flatMap { number in
            withUnsafeBytes(of: number.littleEndian) { Array($0) }
        }
        let name = Self.name(bytes)
        _ = try fileSystem.open(name, in: directory.file, for: .creating)
        do throws(Errno) {
            let content = PeerPage.mark + bytes
            if try fileSystem.status(of: shared.file).size > content.count {
                try fileSystem.truncate(shared.file, to: 0)
            }
            try fileSystem.write(content, to: shared.file, at: 0)
            guard let (file, _) = try fileSystem.openRegular(name, in: directory.file, for: .updating) else {
                throw .notRegular
            }
            return Memory(directory: directory, name: name, file: file)
        } catch {
            try? fileSystem.remove(name, in: directory.file, directory: false)
            throw error
        }
    }

    private static func name(_ bytes: [UInt8]) -> FileName {
        .text("larder-" + bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined())
    }

    /// Gives the page all its blocks: where one is missing, as in a copy with holes, a full disk would end the process at
    /// its first store. Without changes nothing is written.
    private func allocate(_ file: OwnedDescriptor) throws(Errno) {
        if try fileSystem.status(of: file.file).size >= PeerPage.size {
            do throws(Errno) {
                return try fileSystem.allocate(0..<PeerPage.size, for: file.file)
            } catch {
                // Not every disk can do that.
                if error != .notSupported { throw error }
            }
        }
        try fileSystem.write([UInt8](repeating: 0, count: PeerPage.size), to: file.file, at: 0)
    }

    /// Returns the page of living processes; nil when it is not to be found here.
    func find() throws(Errno) -> (page: PeerPage, memory: Memory?)? {
        let memory = place == .memory ? try memory() : nil
        guard let file = place == .memory ? memory?.file : shared,
            try fileSystem.status(of: file.file).size >= PeerPage.size
        else { return nil }
        return (PeerPage(words: try fileSystem.map(file.file, words: PeerPage.wordCount)), memory)
    }

    /// Removes the file in the shared memory of the system, if there is one for this `shared`.
    func removeMemory(of inode: UInt64) {
        guard let memory = try? found(for: inode) else { return }
        try? fileSystem.remove(memory.name, in: memory.directory.file, directory: false)
    }

    /// Opens the file that `shared` names; nil when there is none, or another user may change it.
    private func memory(for use: OpenUse = .updating) throws(Errno) -> Memory? {
        let start = PeerPage.mark.count
        var bytes = [UInt8](repeating: 0, count: start + Self.nameLength + 1)
        let count = try fileSystem.read(shared.file, at: 0, into: &bytes)
        guard count == start + Self.nameLength, bytes.starts(with: PeerPage.mark) else { return nil }
        let name = Self.name(Array(bytes[start..<count]))
        do throws(Errno) {
            let directory = OwnedDescriptor(try fileSystem.sharedMemory())
            guard let (file, _) = try fileSystem.openRegular(name, in: directory.file, for: use),
                try PeerPage.isSafe(file.file, in: fileSystem)
            else { return nil }
            return Memory(directory: directory, name: name, file: file)
        } catch {
            if [.noEntry, .accessDenied, .notPermitted].contains(error) { return nil }
            throw error
        }
    }
}
