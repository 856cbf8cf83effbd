import LarderFiles

/// Lets the callers that modify a key take turns, in the order of their arrival.
final class KeyTurns: Sendable {
    private struct Line {
        var numbers = FIFO<Int>()
        var waiting: [Int: CheckedContinuation<Void, any Error>] = [:]
    }

    private struct State {
        /// Those of the keys that are being modified.
        var lines: [Key: Line] = [:]
        var last = 0

        mutating func leave(_ key: Key, _ number: Int) -> CheckedContinuation<Void, any Error>? {
            guard var line = lines.removeValue(forKey: key) else { return nil }
            defer { lines[key] = line }
            let continuation = line.waiting.removeValue(forKey: number)
            // Those that have left.
            if line.numbers.count > 2 * line.waiting.count + 64 {
                line.numbers.removeAll { line.waiting[$0] == nil }
            }
            return continuation
        }

        mutating func next(_ key: Key) -> CheckedContinuation<Void, any Error>? {
            while let number = lines[key]?.numbers.take() {
                if let next = lines[key]?.waiting.removeValue(forKey: number) { return next }
            }
            lines[key] = nil
            return nil
        }
    }

    private let state = Lock(State())

    /// Waits for the turn of the caller, which ends with `giveBack`.
    ///
    /// - Throws: `CancellationError` when the task is cancelled before.
    func take(_ key: Key) async throws {
        let number = state.withLock { state in
            state.last += 1
            return state.last
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let isFirst = state.withLock { state in
                    if state.lines[key] == nil {
                        state.lines[key] = Line()
                        return true
                    }
                    state.lines[key]?.numbers.append(number)
                    state.lines[key]?.waiting[number] = continuation
                    return false
                }
                if isFirst { return continuation.resume() }
                if Task.isCancelled { leave(key, number) }
            }
        } onCancel: {
            leave(key, number)
        }
    }

    func giveBack(_ key: Key) {
        state.withLock { $0.next(key) }?.resume()
    }

    private func leave(_ key: Key, _ number: Int) {
        state.withLock { $0.leave(key, number) }?.resume(throwing: CancellationError())
    }

    /// The callers that wait for a key. For tests.
    func waitingCount(_ key: Key) -> Int { state.withLock { $0.lines[key]?.waiting.count ?? 0 } }

    /// The numbers that are kept for a key. For tests.
    func numberCount(_ key: Key) -> Int { state.withLock { $0.lines[key]?.numbers.count ?? 0 } }
}
