import Foundation

/// Some reader-writer locks, each alone in its cache lines.
///
/// `@unchecked Sendable`: the memory is made in `init`, freed in `deinit`, and in between touched by the C library alone.
final class ReaderWriterLocks: @unchecked Sendable {
    /// Bytes. Processors fetch cache lines of 64 bytes in pairs; Apple's are 128 bytes long.
    private static let stride = (MemoryLayout<pthread_rwlock_t>.size + 127) / 128 * 128

    let count: Int
    private let base: UnsafeMutableRawPointer

    init(count: Int) {
        self.count = count
        base = .allocate(byteCount: count * Self.stride, alignment: 128)
        for number in 0..<count {
            let lock = (base + number * Self.stride).bindMemory(to: pthread_rwlock_t.self, capacity: 1)
            lock.initialize(to: pthread_rwlock_t())
            pthread_rwlock_init(lock, nil)
        }
    }

    deinit {
        for number in 0..<count { pthread_rwlock_destroy(lock(number)) }
        base.deallocate()
    }

    func read(_ number: Int) {
        // EAGAIN: more readers than the lock can count.
        while case let error = pthread_rwlock_rdlock(lock(number)), error != 0 {
            precondition(error == EAGAIN, "a block waits for its own queue")
            sched_yield()
        }
    }

    func write(_ number: Int) {
        let error = pthread_rwlock_wrlock(lock(number))
        precondition(error == 0, "a block waits for its own queue")
    }

    func unlock(_ number: Int) {
        pthread_rwlock_unlock(lock(number))
    }

    private func lock(_ number: Int) -> UnsafeMutablePointer<pthread_rwlock_t> {
        (base + number * Self.stride).assumingMemoryBound(to: pthread_rwlock_t.self)
    }
}
