import LarderFiles
import LarderTesting

/// Counts the calls of a file system by kind.
final class CallCounter: Sendable {
    private let calls = Lock<[MemoryFileSystem.Operation: Int]>([:])

    @Sendable func count(_ call: Int, _ operation: MemoryFileSystem.Operation) -> MemoryFileSystem.Fault? {
        calls.withLock { $0[operation, default: 0] += 1 }
        return nil
    }

    func reset() {
        calls.withLock { $0 = [:] }
    }

    func number(of operation: MemoryFileSystem.Operation) -> Int {
        calls.withLock { $0[operation] ?? 0 }
    }

    var all: [MemoryFileSystem.Operation: Int] { calls.withLock { $0 } }
}
