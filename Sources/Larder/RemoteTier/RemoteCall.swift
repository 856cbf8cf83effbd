import LarderFiles

/// The questions of one call, which says once whether the server answers: a call for many keys is no reason to give up
/// more than one for a single key.
final class RemoteCall: Sendable {
    private struct State {
        var isHopeless = false
        var hasFailed = false
        var isLate = false
    }

    let begun: Timestamp
    private let state = Lock(State())

    init(at now: Timestamp) {
        begun = now
    }

    /// True while the last news of the server is that it does not answer: further questions would only cost time.
    var isHopeless: Bool { state.withLock { $0.isHopeless } }

    /// Notes an answer. Returns false for a late one after the first, which says nothing new.
    func noteAnswer(isLate: Bool) -> Bool {
        state.withLock { state in
            defer { state.isLate = state.isLate || isLate }
            state.isHopeless = false
            return !isLate || !state.isLate
        }
    }

    /// Notes that a question has failed, or that its answer has not come in time. Returns false after the first time.
    func noteFailure() -> Bool {
        state.withLock { state in
            defer { state.hasFailed = true }
            state.isHopeless = true
            return !state.hasFailed
        }
    }
}
