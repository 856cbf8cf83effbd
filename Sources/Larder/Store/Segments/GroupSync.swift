import Dispatch
import LarderFiles
import LarderFoundation

/// Syncs one descriptor for many callers: callers that wait while a sync runs share the next one.
///
/// A failed sync is never retried for the same changes: after an error the system may count lost pages as written.
///
/// `@unchecked Sendable`: `done` and `failed` are accessed only on `queue`.
final class GroupSync: @unchecked Sendable {
    private let descriptor: SharedDescriptor
    private let fileSystem: any FileSystem
    private let queue = DispatchQueue(label: "larder.sync")
    private let noted = Lock(0)
    private var done = 0
    private var failed: [(tickets: ClosedRange<Int>, error: Errno)] = []

    init(_ descriptor: SharedDescriptor, of fileSystem: any FileSystem) {
        self.descriptor = descriptor
        self.fileSystem = fileSystem
    }

    /// Takes a ticket for a change that has been made.
    func note() -> Int {
        noted.withLock { count in
            count += 1
            return count
        }
    }

    /// Returns when the change of `ticket` is on stable storage.
    func sync(through ticket: Int) throws(Errno) {
        try queue.run { () throws(Errno) in
            if let failure = failed.first(where: { $0.tickets.contains(ticket) }) { throw failure.error }
            if done >= ticket { return }
            let target = noted.withLock { $0 }
            do throws(Errno) {
                try fileSystem.sync(descriptor.file)
                done = target
            } catch {
                failed.append((done + 1...target, error))
                done = target
                throw error
            }
        }
    }
}
