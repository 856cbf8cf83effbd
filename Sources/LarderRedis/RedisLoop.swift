#if Redis
    import Foundation
    import Larder
    import LarderFiles

    /// The connections of a tier, all on one thread: one for commands, and one for notices, to which the server sends
    /// what it tracks for the first.
    ///
    /// `@unchecked Sendable`: only the loop's thread uses `link` and `time`; the rest is under the lock.
    final class RedisLoop: @unchecked Sendable {
        private struct State {
            var wishes: [(command: [Data], caller: RedisLink.Caller)] = []
            var waiting = 0
            var isStopped = false
            var tierState = RemoteTierState.disconnected(reason: "not connected yet")
            var observers: [Int: Observer] = [:]
            /// Those that have not heard yet whether there is a connection.
            var newcomers: [Int] = []
            var last = 0
            var digests: [RedisScript: String] = [:]
        }

        private struct Observer {
            let node: String
            let receive: @Sendable (RemoteNotice) -> Void
            /// Signals that it has heard of the connection.
            let isGreeted = DispatchSemaphore(value: 0)
        }

        /// How long a new observer waits to hear of the connection.
        private static let greetingTime = DispatchTimeInterval.milliseconds(100)

        /// The most commands under way; further ones fail at once.
        private static let mostCommands = 10_000

        private let settings: RedisConfiguration
        private let names: RedisNames
        private let state = Lock(State())
        private var link: RedisLink?
        /// The server's time when the connection was made, and when that was.
        private var time: (milliseconds: Int64, taken: ContinuousClock.Instant)?
        private let waker = RedisWaker()

        init(_ settings: RedisConfiguration, _ names: RedisNames) {
            self.settings = settings
            self.names = names
        }

        func begin() {
            let thread = Thread { [self] in run() }
            thread.name = "Larder redis"
            thread.start()
        }

        func stop() {
            state.withLock { $0.isStopped = true }
            waker.wake()
        }

        var tierState: RemoteTierState { state.withLock { $0.tierState } }

        func digest(of script: RedisScript) -> String? { state.withLock { $0.digests[script] } }

        func observe(
            as node: String, _ receive: @escaping @Sendable (RemoteNotice) -> Void
        ) -> @Sendable () -> Void {
            let observer = Observer(node: node, receive: receive)
            let (number, isConnected) = state.withLock { state in
                state.last += 1
                state.observers[state.last] = observer
                state.newcomers.append(state.last)
                if case .connected = state.tierState { return (state.last, true) }
                return (state.last, false)
            }
            waker.wake()
            // So that a cache which is opened over a connection uses it from its first call on.
            if isConnected { _ = observer.isGreeted.wait(timeout: .now() + Self.greetingTime) }
            return { [weak self] in
                let gone = self?.state.withLock { $0.observers.removeValue(forKey: number) }
                _ = consume gone
            }
        }

        /// Sends a command and returns its reply, which may be an error of the server.
        func send(_ command: [Data]) async throws -> RedisReply {
            try await withCheckedThrowingContinuation { caller in
                let problem = state.withLock { state -> RemoteTierError? in
                    guard case .connected = state.tierState, !state.isStopped else {
                        return RemoteTierError(.unavailable, "There is no connection.")
                    }
                    guard state.waiting < Self.mostCommands else {
                        return RemoteTierError(.unavailable, "Too many commands are under way.")
                    }
                    state.waiting += 1
                    state.wishes.append((command, caller))
                    return nil
                }
                if let problem { caller.resume(throwing: problem) } else { waker.wake() }
            }
        }
    }

    /// The thread.
    extension RedisLoop {
        private func run() {
            // A write into a connection that the server has closed must not end the program. Only here: how the rest of
            // the program treats the signal is its own business.
            var signals = sigset_t()
            sigemptyset(&signals)
            sigaddset(&signals, SIGPIPE)
            pthread_sigmask(SIG_BLOCK, &signals, nil)
            var backoff = RedisBackoff()
            while !state.withLock({ $0.isStopped }) {
                let begun = ContinuousClock.now
                do {
                    try connect()
                    while !state.withLock({ $0.isStopped }) { try turn() }
                } catch {
                    disconnect(error)
                }
                if state.withLock({ $0.isStopped }) { break }
                sleep(backoff.next(after: ContinuousClock.now - begun, jitter: .random(in: 0...1)))
            }
            disconnect(RemoteTierError(.unavailable, "The tier was released."))
        }

        /// Waits for a while, or until the tier is released.
        private func sleep(_ time: Duration) {
            let end = ContinuousClock.now + time
            while ContinuousClock.now < end, !state.withLock({ $0.isStopped }) {
                greet()
                _ = waker.wait(for: [], end - ContinuousClock.now)
            }
        }

        private func connect() throws {
            let made = try RedisHandshake(settings, names)
            link = made.link
            time = (made.epoch.time, ContinuousClock.now)
            state.withLock { state in
                state.tierState = .connected(epoch: made.epoch.name)
                state.newcomers = state.observers.keys.sorted()
                state.digests = made.digests
            }
            greet()
        }

        /// Tells the observers that do not know it whether there is a connection. On this thread, so that they hear of
        /// it before everything that comes over it, and after the end of the one before.
        private func greet() {
            let (observers, tierState) = state.withLock { state in
                defer { state.newcomers = [] }
                return (state.newcomers.compactMap { state.observers[$0] }, state.tierState)
            }
            for observer in observers {
                defer { observer.isGreeted.signal() }
                switch tierState {
                case .connected(let epoch), .slow(let epoch):
                    guard let time else { continue }
                    let passed = Int64((ContinuousClock.now - time.taken) / .milliseconds(1))
                    observer.receive(.connected(epoch: epoch, time: time.milliseconds + passed))
                case .disconnected(let reason): observer.receive(.disconnected(reason: reason))
                }
            }
        }

        private func tell(_ notice: RemoteNotice, except node: String? = nil) {
            let observers = state.withLock { state in
                state.observers.sorted { $0.key < $1.key }.filter { $0.value.node != node }
            }
            for observer in observers { observer.value.receive(notice) }
        }

        private func disconnect(_ error: any Error) {
            let callers = link?.callers ?? []
            link = nil
            let reason = (error as? RemoteTierError)?.message ?? "\(error)"
            let wishes = state.withLock { state in
                state.tierState = .disconnected(reason: reason)
                (state.waiting, state.newcomers) = (0, [])
                defer { state.wishes = [] }
                return state.wishes
            }
            tell(.disconnected(reason: reason))
            let failure = RemoteTierError(.unavailable, reason)
            for caller in callers + wishes.map(\.caller) { caller.resume(throwing: failure) }
        }

        /// Sends what is to be sent, receives what has come, and waits for more.
        private func turn() throws {
            guard var current = link else { return }
            // Its own, or each turn would copy the callers.
            link = nil
            defer { link = current }
            let now = ContinuousClock.now
            let wishes = state.withLock { state in
                defer { state.wishes = [] }
                return state.wishes
            }
            greet()
            for wish in wishes { current.append(wish.command, wish.caller, at: now) }
            current.ping(at: now)
            let (hasReplies, hasNotices) = try current.exchange(waker, at: now)
            // Notices first: a reply may be newer than a notice that has already come.
            var isEmptied = false
            if hasNotices {
                try current.receiveNotices { channel, message in
                    // All databases of the server have this channel, so ours need not be the one.
                    if channel == RedisHandshake.invalidations {
                        isEmptied = true
                    } else {
                        receive(message, on: channel)
                    }
                }
            }
            if isEmptied { current.askForEpoch(at: ContinuousClock.now, isGone: true) }
            if hasReplies { try current.receiveReplies({ state.withLock { $0.waiting -= 1 } }, begin) }
            try current.checkTime()
        }

        /// Another epoch begins on the same connection: nobody knows what the server has forgotten.
        private func begin(_ epoch: RedisEpoch) {
            time = (epoch.time, ContinuousClock.now)
            state.withLock { $0.tierState = .connected(epoch: epoch.name) }
            tell(.connected(epoch: epoch.name, time: epoch.time))
        }

        private func receive(_ message: RedisReply, on channel: String) {
            switch channel {
            case names.changes:
                if let (node, notice) = message.data.flatMap({ names.change($0) }) { tell(notice, except: node) }
            case names.clears:
                if let (node, notice) = message.data.flatMap({ names.clear($0) }) { tell(notice, except: node) }
            case names.ends:
                if let key = message.data.flatMap({ names.key($0) }) { tell(.leaseEnded(key)) }
            default: break
            }
        }
    }
#endif
