import LarderFiles

/// The file that has the page.
///
/// It is `shared` itself. On a disk that copies blocks when they are written it is in the shared memory of the system:
/// once such a disk is full, a store to a mapped block would end the process. The locks are those of `shared` in any
/// case; its bytes then only say that the page is elsewhere.
struct PageFile {
    let fileSystem: any FileSystem
    let shared: SharedDescriptor
    let place: PagePlace

    /// A file in the shared memory of the system.
    struct Memory {
        let directory: SharedDescriptor
        let name: FileName
        let file: SharedDescriptor
    }

    /// Another user may have taken the first names.
    private static let attempts = 8

    /// Returns a copy of the page that dead processes have left, in memory of this process; nil when there is none.
    func left() -> SharedPage? {
        if let page = try? copy(of: shared) { return page }
        return (try? memory(creating: false)).flatMap { memory in memory.flatMap { try? copy(of: $0.file) } }
    }

    private func copy(of file: SharedDescriptor) throws(Errno) -> SharedPage? {
        var bytes = [UInt8](repeating: 0, count: SharedPage.size)
        guard try fileSystem.read(file.file, at: 0, into: &bytes) == bytes.count else { return nil }
        return SharedPage(copying: bytes)
    }

    /// Makes the page for the first process.
    func make() throws(Errno) -> (page: SharedPage, memory: Memory?) {
        guard place == .memory else {
            try allocate(shared)
            return (SharedPage(words: try fileSystem.map(shared.file, words: SharedPage.wordCount)), nil)
        }
        guard let memory = try memory(creating: true) else { throw .noEntry }
        try allocate(memory.file)
        // On a full disk the file may stay empty.
        if try fileSystem.status(of: shared.file).size != SharedPage.mark.count {
            try? fileSystem.truncate(shared.file, to: 0)
            try? fileSystem.write(SharedPage.mark, to: shared.file, at: 0)
        }
        return (SharedPage(words: try fileSystem.map(memory.file.file, words: SharedPage.wordCount)), memory)
    }

    /// Gives the page all its blocks: where one is missing, as in a copy with holes, a full disk would end the process at
    /// its first store. Without changes nothing is written.
    private func allocate(_ file: SharedDescriptor) throws(Errno) {
        if try fileSystem.status(of: file.file).size >= SharedPage.size {
            do throws(Errno) {
                return try fileSystem.allocate(0..<SharedPage.size, for: file.file)
            } catch {
                // Not every disk can do that.
                if [.noSpace, .overQuota].contains(error) { throw error }
            }
        }
        try fileSystem.write([UInt8](repeating: 0, count: SharedPage.size), to: file.file, at: 0)
    }

    /// Returns the page of living processes; nil when it is not to be found here.
    func find() throws(Errno) -> (page: SharedPage, memory: Memory?)? {
        let memory = place == .memory ? try memory(creating: false) : nil
        guard let file = place == .memory ? memory?.file : shared,
            try fileSystem.status(of: file.file).size >= SharedPage.size
        else { return nil }
        return (SharedPage(words: try fileSystem.map(file.file, words: SharedPage.wordCount)), memory)
    }

    /// Removes the file in the shared memory of the system, if there is one.
    func removeMemory() {
        guard let memory = try? memory(creating: false) else { return }
        try? fileSystem.remove(memory.name, in: memory.directory.file, directory: false)
    }

    /// Opens the file in the shared memory of the system. Its name tells the user and `shared`; only that user can
    /// change it.
    private func memory(creating: Bool) throws(Errno) -> Memory? {
        let base = "larder-\(fileSystem.userID)-\(try fileSystem.identifier(of: shared.file))"
        let directory = SharedDescriptor(try fileSystem.sharedMemory())
        for attempt in 0..<Self.attempts {
            let name = FileName.text(attempt == 0 ? base : "\(base)-\(attempt)")
            do throws(Errno) {
                if creating { try create(name, in: directory) }
                guard let (file, _) = try fileSystem.openRegular(name, in: directory.file, for: .updating),
                    try SharedPage.isSafe(file.file, in: fileSystem)
                else { continue }
                return Memory(directory: directory, name: name, file: file)
            } catch {
                if error == .noEntry { return nil }
                if ![.accessDenied, .notPermitted].contains(error) { throw error }
            }
        }
        return nil
    }

    private func create(_ name: FileName, in directory: SharedDescriptor) throws(Errno) {
        do throws(Errno) {
            _ = try fileSystem.open(name, in: directory.file, for: .creating)
        } catch {
            if error != .exists { throw error }
        }
    }
}
