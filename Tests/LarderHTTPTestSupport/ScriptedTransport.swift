import LarderFiles
import LarderFoundation
package import LarderHTTP

/// A server in memory: a function answers each request, and the requests are kept.
package final class ScriptedTransport: HTTPTransport {
    /// The answer to a request.
    package struct Reply: Sendable {
        package var status: Int
        package var fields: [HTTPField]
        package var body: HTTPBody

        package init(_ status: Int = 200, _ lines: [String] = [], _ body: HTTPBody) {
            self.status = status
            fields = lines.map { line in
                let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
                return HTTPField(String(parts[0]), String(parts[1]))
            }
            self.body = body
        }

        package init(_ status: Int = 200, _ lines: String..., body: String = "body") {
            self.init(status, lines, HTTPBody(.init(body.utf8)))
        }
    }

    private let received = Lock<[URLRequest]>([])
    private let answer = Lock<@Sendable (URLRequest) async throws -> Reply>({ _ in Reply() })

    package init(_ answer: @escaping @Sendable (URLRequest) async throws -> Reply) {
        self.answer.withLock { $0 = answer }
    }

    /// Answers from now on with another function.
    package func reply(_ answer: @escaping @Sendable (URLRequest) async throws -> Reply) {
        self.answer.withLock { $0 = answer }
    }

    /// Answers every request from now on with the same status, fields and body.
    package func reply(_ status: Int = 200, _ lines: String..., body: String = "body") {
        reply { _ in Reply(status, lines, HTTPBody(.init(body.utf8))) }
    }

    /// The requests since the last call.
    package func takeRequests() -> [URLRequest] {
        received.withLock { requests in
            defer { requests = [] }
            return requests
        }
    }

    package func send(_ request: URLRequest) async throws -> HTTPTransportResponse {
        received.withLock { $0.append(request) }
        let reply = try await answer.withLock { $0 }(request)
        return HTTPTransportResponse(status: reply.status, fields: reply.fields, body: reply.body)
    }
}

/// A door that requests wait at until it is opened.
package final class Door: Sendable {
    private struct State {
        var isOpen = false
        var waiters: [CheckedContinuation<Void, Never>] = []
        var arrivals = 0
        var watchers: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []
    }

    private let state = Lock(State())

    package init() {}

    /// Waits until the door is open.
    package func pass() async {
        await withCheckedContinuation { continuation in
            let (isOpen, watchers) = state.withLock { state in
                state.arrivals += 1
                if !state.isOpen { state.waiters.append(continuation) }
                let ready = state.watchers.filter { $0.count <= state.arrivals }
                state.watchers.removeAll { $0.count <= state.arrivals }
                return (state.isOpen, ready)
            }
            for watcher in watchers { watcher.continuation.resume() }
            if isOpen { continuation.resume() }
        }
    }

    /// Returns when so many have come to the door.
    package func waitForArrivals(_ count: Int = 1) async {
        await withCheckedContinuation { continuation in
            let isThere = state.withLock { state in
                if state.arrivals < count { state.watchers.append((count, continuation)) }
                return state.arrivals >= count
            }
            if isThere { continuation.resume() }
        }
    }

    package func open() {
        let waiters = state.withLock { state in
            state.isOpen = true
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }
}
