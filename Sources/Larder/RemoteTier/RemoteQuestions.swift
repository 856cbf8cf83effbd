import LarderFiles

/// The questions that are under way: at most one for each key that takes callers, who share its answer.
///
/// A question that has its answer takes no more callers: they may have changed the key since, or heard of a change.
final class RemoteQuestions<Value: Sendable>: Sendable {
    typealias Answer = Lookup<Value>?

    private struct State {
        /// The questions that take callers, by number.
        var open: [Key: Int] = [:]
        var callers: [Int: [CheckedContinuation<(hasEnded: Bool, answer: Answer), Never>]] = [:]
        var last = 0

        mutating func close(_ key: Key, _ number: Int) {
            if open[key] == number { open[key] = nil }
        }
    }

    private let state = Lock(State())

    /// Returns the answer of `question`, or of one that is under way. A question calls `close` when it has the server's
    /// answer, and before it decides whether that counts.
    func ask(_ key: Key, _ question: (_ close: () -> Void) async -> Answer) async -> Answer {
        if let number = begin(key) { return await self.answer(key, number, question) }
        let (hasEnded, answer) = await join(key)
        return hasEnded ? await question {} : answer
    }

    /// Returns the number of a new question; nil where one takes callers.
    func begin(_ key: Key) -> Int? {
        state.withLock { state in
            if state.open[key] != nil { return nil }
            state.last += 1
            (state.open[key], state.callers[state.last]) = (state.last, [])
            return state.last
        }
    }

    /// Answers a question that was begun.
    func answer(_ key: Key, _ number: Int, _ question: (_ close: () -> Void) async -> Answer) async -> Answer {
        let answer = await question { state.withLock { $0.close(key, number) } }
        let callers = state.withLock { state in
            state.close(key, number)
            return state.callers.removeValue(forKey: number) ?? []
        }
        for caller in callers { caller.resume(returning: (false, answer)) }
        return answer
    }

    /// The answer; or that there is no question any more that takes callers.
    private func join(_ key: Key) async -> (hasEnded: Bool, answer: Answer) {
        await withCheckedContinuation { caller in
            let isJoined = state.withLock { state in
                guard let number = state.open[key] else { return false }
                state.callers[number]?.append(caller)
                return true
            }
            if !isJoined { caller.resume(returning: (true, nil)) }
        }
    }
}
