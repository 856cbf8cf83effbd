import Dispatch
package import LarderFiles
package import LarderTesting

/// A file system whose reads, writes and syncs stop or fail as a test wants, outside of all locks of the disk in memory.
package final class ScriptedFileSystem: ForwardingFileSystem {
    package enum Step: Sendable {
        case pass
        /// The call waits, and then fails if there is an error.
        case hold(MemoryFileSystem.Hold, then: Errno? = nil)
        /// Nothing is written.
        case fail(Errno)
    }

    package typealias Script = @Sendable (MemoryFileSystem.Operation, FileIdentity?) -> Step

    package let base: MemoryFileSystem
    private let script = Lock<Script?>(nil)

    package init(_ base: MemoryFileSystem) { self.base = base }

    /// Asks `script` before each read, write and sync; nil: all of them pass.
    package func run(_ script: Script?) { self.script.withLock { $0 = script } }

    private func step(_ operation: MemoryFileSystem.Operation, _ file: borrowing FileDescriptor) throws(Errno) {
        guard let script = script.withLock({ $0 }) else { return }
        switch script(operation, (try? base.status(of: file))?.identity) {
        case .pass: break
        case .hold(let hold, let error):
            hold.reached.signal()
            hold.free.wait()
            if let error { throw error }
        case .fail(let error): throw error
        }
    }

    package func read(
        _ file: borrowing FileDescriptor, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
    ) throws(Errno) -> Int {
        try step(.read, file)
        return try base.read(file, at: offset, into: buffer)
    }

    package func write(
        _ head: UnsafeRawBufferPointer, _ tail: UnsafeRawBufferPointer, to file: borrowing FileDescriptor,
        at offset: Int
    ) throws(Errno) {
        try step(.write, file)
        try base.write(head, tail, to: file, at: offset)
    }

    package func sync(_ file: borrowing FileDescriptor) throws(Errno) {
        try step(.sync, file)
        try base.sync(file)
    }
}
