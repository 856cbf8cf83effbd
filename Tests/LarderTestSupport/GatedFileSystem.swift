import Dispatch
package import LarderFiles
package import LarderTesting

/// A file system that stops chosen calls before they run, while other threads continue.
package final class GatedFileSystem: ForwardingFileSystem {
    package typealias Operation = MemoryFileSystem.Operation
    package typealias Hold = MemoryFileSystem.Hold
    package typealias Matcher = @Sendable (Operation, String, Int) -> Bool

    package let base: MemoryFileSystem
    private let holds = Lock<[(matches: Matcher, hold: Hold)]>([])

    package init(_ base: MemoryFileSystem) { self.base = base }

    /// Stops the n-th matching call, by default the first, given the operation, the name or new name, and the bytes
    /// written.
    package func hold(_ number: Int = 1, _ matches: @escaping Matcher) -> Hold {
        let (hold, left) = (Hold(), Lock(number))
        holds.withLock { holds in
            let isNumber: Matcher = { operation, name, size in
                guard matches(operation, name, size) else { return false }
                return left.withLock { left in
                    left -= 1
                    return left == 0
                }
            }
            holds.append((isNumber, hold))
        }
        return hold
    }

    private func pass(_ operation: Operation, _ name: String, _ size: Int = 0) {
        let hold = holds.withLock { holds -> Hold? in
            guard let index = holds.firstIndex(where: { $0.matches(operation, name, size) }) else { return nil }
            return holds.remove(at: index).hold
        }
        hold?.reached.signal()
        hold?.free.wait()
    }

    package func open(
        _ name: FileName, in directory: borrowing FileDescriptor, for use: OpenUse
    ) throws(Errno) -> FileDescriptor {
        if case .creating = use { pass(.create, name.description) } else { pass(.open, name.description) }
        return try base.open(name, in: directory, for: use)
    }

    package func write(
        _ head: UnsafeRawBufferPointer, _ tail: UnsafeRawBufferPointer, to file: borrowing FileDescriptor,
        at offset: Int
    ) throws(Errno) {
        pass(.write, "", head.count + tail.count)
        try base.write(head, tail, to: file, at: offset)
    }

    package func rename(
        _ name: FileName, in directory: borrowing FileDescriptor, to newName: FileName,
        in newDirectory: borrowing FileDescriptor
    ) throws(Errno) {
        pass(.rename, newName.description)
        try base.rename(name, in: directory, to: newName, in: newDirectory)
    }

    package func remove(
        _ name: FileName, in directory: borrowing FileDescriptor, directory isDirectory: Bool
    ) throws(Errno) {
        pass(.remove, name.description)
        try base.remove(name, in: directory, directory: isDirectory)
    }
}
