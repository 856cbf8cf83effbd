import LarderFiles

/// Validations in the background, one per entry at a time.
final class Revalidations: Sendable {
    private let tasks = Lock<[String: Task<Void, Never>]>([:])

    /// Begins one unless the entry is being validated.
    func begin(_ key: String, _ work: @escaping @Sendable () async -> Void) {
        tasks.withLock { tasks in
            guard tasks[key] == nil else { return }
            tasks[key] = SystemClock().beginDetached { [self] in
                await work()
                finish(key)
            }
        }
    }

    private func finish(_ key: String) {
        _ = tasks.withLock { $0.removeValue(forKey: key) }
    }

    /// Returns when none is under way.
    func wait() async {
        while let task = tasks.withLock({ $0.values.first }) {
            await task.value
            await Task.yield()
        }
    }
}
