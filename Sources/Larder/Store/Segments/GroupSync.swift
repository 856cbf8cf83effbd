import LarderFiles
import LarderFoundation

/// Syncs one descriptor for many callers: callers that wait while a sync runs share the next one.
///
/// A failed sync is never retried for the same changes: after an error the system may count lost pages as written. It
/// concerns all changes that were made before it ended.
///
/// `@unchecked Sendable`: `done` and `failed` are accessed only on `queue`.
final class GroupSync: @unchecked Sendable {
    private let descriptor: OwnedDescriptor
    private let fileSystem: any FileSystem
    private let queue = SerialQueue()
    private let noted = Lock(0)
    private var done = 0
    private var failed: [(tickets: ClosedRange<Int>, error: Errno)] = []
    private static let mostFailed = 16

    init(_ descriptor: OwnedDescriptor, of fileSystem: any FileSystem) {
        self.descriptor = descriptor
        self.fileSystem = fileSystem
    }

    /// Takes a ticket for a change that has been made, or for one that begins.
    func note() -> Int {
        noted.withLock { count in
            count += 1
            return count
        }
    }

    /// Returns when the change of `ticket` is on stable storage. `first`: the ticket that was taken before it began.
    func sync(through ticket: Int, since first: Int) throws(Errno) {
        try queue.run { () throws(Errno) in
            if let failure = failed.first(where: { $0.tickets.overlaps(first...ticket) }) { throw failure.error }
            if done >= ticket { return }
            let target = noted.withLock { $0 }
            do throws(Errno) {
                try fileSystem.sync(descriptor.file)
                done = target
            } catch {
                // A change that was made meanwhile may be lost, too.
                let last = noted.withLock { $0 }
                failed.append((done + 1...last, error))
                done = last
                // Nobody may ask for the oldest any more. A failure too many costs a change that is tried again.
                if failed.count > Self.mostFailed {
                    let oldest = failed.removeFirst()
                    failed[0].tickets = oldest.tickets.lowerBound...failed[0].tickets.upperBound
                }
                throw error
            }
        }
    }
}
