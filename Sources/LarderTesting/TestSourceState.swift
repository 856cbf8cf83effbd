/// The bookkeeping of a test's source: its waiting requests, observers and answers. Its methods return the
/// continuations to resume.
struct TestSourceState<Value: Sendable>: Sendable {
    typealias Answer = Result<Value, any Error>
    typealias Continuation = CheckedContinuation<Value, any Error>

    /// The count that a test waits for.
    enum Counter: Sendable {
        case requests, cancellations
    }

    private struct Request {
        let number: Int
        let key: String
        let continuation: Continuation
    }

    private struct Observer {
        let number: Int
        let counter: Counter
        let count: Int
        let continuation: CheckedContinuation<Void, Never>
    }

    private var waiting: [Request] = []
    private var observers: [Observer] = []
    /// Answers that no request has taken yet; an answer without a key is for any request.
    private var kept: [(key: String?, answer: Answer)] = []
    /// Numbers of requests and observers that were cancelled before they began to wait.
    private var cancelledEarly: Set<Int> = []
    private var lastNumber = 0
    private(set) var requestedKeys: [String] = []
    private(set) var cancellations = 0

    var waitingKeys: [String] { waiting.map(\.key) }
    var keptCount: Int { kept.count }

    /// Numbers a request or an observer.
    mutating func takeNumber() -> Int {
        lastNumber += 1
        return lastNumber
    }

    /// Notes a request; returns its answer if it does not have to wait.
    mutating func request(_ number: Int, _ key: String, _ continuation: Continuation) -> Answer? {
        requestedKeys.append(key)
        if cancelledEarly.remove(number) != nil {
            cancellations += 1
            return .failure(CancellationError())
        }
        if let index = kept.firstIndex(where: { $0.key == nil || $0.key == key }) {
            return kept.remove(at: index).answer
        }
        waiting.append(Request(number: number, key: key, continuation: continuation))
        return nil
    }

    /// Returns the oldest waiting request, with `key` if it is not nil; keeps the answer when there is none.
    mutating func answer(_ answer: Answer, forKey key: String?) -> Continuation? {
        if let index = waiting.firstIndex(where: { key == nil || $0.key == key }) {
            return waiting.remove(at: index).continuation
        }
        kept.append((key, answer))
        return nil
    }

    mutating func cancel(_ number: Int) -> Continuation? {
        guard let index = waiting.firstIndex(where: { $0.number == number }) else {
            cancelledEarly.insert(number)
            return nil
        }
        cancellations += 1
        return waiting.remove(at: index).continuation
    }

    /// Forgets a finished request.
    mutating func forget(_ number: Int) {
        cancelledEarly.remove(number)
    }

    /// False when there is nothing to wait for.
    mutating func observe(
        _ number: Int, _ counter: Counter, _ count: Int, _ continuation: CheckedContinuation<Void, Never>
    ) -> Bool {
        guard value(of: counter) < count, cancelledEarly.remove(number) == nil else { return false }
        observers.append(Observer(number: number, counter: counter, count: count, continuation: continuation))
        return true
    }

    mutating func stopObserving(_ number: Int) -> CheckedContinuation<Void, Never>? {
        guard let index = observers.firstIndex(where: { $0.number == number }) else {
            cancelledEarly.insert(number)
            return nil
        }
        return observers.remove(at: index).continuation
    }

    /// Removes and returns the observers whose count has been reached.
    mutating func takeSatisfiedObservers() -> [CheckedContinuation<Void, Never>] {
        let satisfied = observers.filter { value(of: $0.counter) >= $0.count }
        if satisfied.isEmpty { return [] }
        let rest = observers.filter { value(of: $0.counter) < $0.count }
        observers = rest
        return satisfied.map(\.continuation)
    }

    private func value(of counter: Counter) -> Int {
        switch counter {
        case .requests: requestedKeys.count
        case .cancellations: cancellations
        }
    }
}
