import Dispatch
import LarderFiles

/// Delivers events on a bounded serial queue of its own, so that no lock is held while a handler runs.
final class EventCenter: Sendable {
    typealias Handler = @Sendable (CacheEvent) -> Void

    /// The maximum number of events that wait for a slow handler.
    static let bound = 1_000

    private struct State {
        var handlers: [Int: Handler] = [:]
        /// Called when the center is deallocated.
        var endings: [Int: @Sendable () -> Void] = [:]
        var next = 0
        var pending = 0
        var dropped = 0
    }

    private let queue: any WorkQueue
    private let state = Lock(State())
    private let hasHandlers = Flag()

    init(_ scheduler: any Scheduler) {
        queue = scheduler.queue("larder.events", .utility)
    }

    var dropped: Int { state.withLock { $0.dropped } }

    /// True when there are listeners; an event is created only then.
    var isListening: Bool { hasHandlers.isSet }

    func add(_ handler: @escaping Handler) -> Int {
        state.withLock { state in
            state.next += 1
            state.handlers[state.next] = handler
            hasHandlers.set()
            return state.next
        }
    }

    /// The events from now on, until the reader stops or the center is deallocated.
    var stream: AsyncStream<CacheEvent> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: CacheEvent.self, bufferingPolicy: .bufferingNewest(Self.bound))
        let id = add { continuation.yield($0) }
        state.withLock { $0.endings[id] = { continuation.finish() } }
        continuation.onTermination = { [weak self] _ in self?.remove(id) }
        return stream
    }

    func remove(_ id: Int) {
        let (handler, ending) = state.withLock { state in
            defer { hasHandlers.set(!state.handlers.isEmpty) }
            return (state.handlers.removeValue(forKey: id), state.endings.removeValue(forKey: id))
        }
        _ = (consume handler, consume ending)
    }

    deinit {
        for ending in state.withLock({ $0.endings }).inOrder(of: { $0.key }).map(\.value) { ending() }
    }

    func post(_ event: @autoclosure () -> CacheEvent) {
        guard isListening else { return }
        let handlers = state.withLock { state -> [Handler] in
            guard state.pending < Self.bound else {
                state.dropped += 1
                return []
            }
            state.pending += 1
            return state.handlers.inOrder { $0.key }.map(\.value)
        }
        if handlers.isEmpty { return }
        let event = event()
        queue.enqueue {
            for handler in handlers { handler(event) }
            self.state.withLock { $0.pending -= 1 }
        }
    }

    /// Runs a caller's closure among the events.
    func run(_ body: @escaping @Sendable () -> Void) {
        queue.enqueue(body)
    }

    /// Returns when everything posted before has been delivered. Never call it from a handler.
    func drain() {
        queue.run {}
    }
}
