#if Redis
    import Foundation
    import Larder

    /// The two connections of a tier once they are made: one for commands, with the callers that wait for replies, and
    /// one for notices. Used by the loop's thread alone.
    struct RedisLink {
        typealias Caller = CheckedContinuation<RedisReply, any Error>
        typealias Instant = ContinuousClock.Instant

        private static let pingInterval = Duration.seconds(5)

        private let commands: RedisConnection
        private let notices: RedisConnection
        private let replyTimeout: Duration
        /// The command that asks for the epoch, and begins another one where that is gone.
        private let question: () -> [Data]
        /// The id of the epoch that the server keeps.
        private var epoch: Data
        /// By the numbers of their commands, in the order of the replies; without a caller it is the question, which may
        /// have come from the server's word that the epoch is gone.
        private var waiting: [Int: (caller: Caller?, due: Instant, isGone: Bool)] = [:]
        private var first = 0
        private var next = 0
        private var noticePingDue: Instant?
        private var lastPing = ContinuousClock.now
        private var lastReply = ContinuousClock.now

        init(
            commands: RedisConnection, notices: RedisConnection, replyTimeout: Duration,
            question: @escaping () -> [Data], epoch: Data
        ) {
            self.commands = commands
            self.notices = notices
            self.replyTimeout = replyTimeout
            self.question = question
            self.epoch = epoch
        }

        /// The callers that wait for replies.
        var callers: [Caller] { waiting.sorted { $0.key < $1.key }.compactMap(\.value.caller) }

        /// The time by which the server has to answer; nil: it owes no answer. Replies come in order, so each is a sign
        /// of life for all commands after it.
        private var due: Instant? {
            let reply = waiting[first].map { max($0.due, lastReply + replyTimeout) }
            return [reply, noticePingDue].compactMap(\.self).min()
        }

        mutating func append(_ command: [Data], _ caller: Caller?, at now: Instant, isGone: Bool = false) {
            commands.append(command)
            waiting[next] = (caller, now + replyTimeout, isGone)
            next += 1
        }

        mutating func askForEpoch(at now: Instant, isGone: Bool = false) {
            append(question(), nil, at: now, isGone: isGone)
        }

        /// Asks for a sign of life on both connections when there was none for some time.
        mutating func ping(at now: Instant) {
            guard now - lastPing >= Self.pingInterval else { return }
            lastPing = now
            askForEpoch(at: now)
            notices.append([Data("PING".utf8)])
            noticePingDue = noticePingDue ?? now + replyTimeout
        }

        /// Sends what is to be sent, and waits until something has come or somebody wakes the thread.
        func exchange(_ waker: RedisWaker, at now: Instant) throws -> (hasReplies: Bool, hasNotices: Bool) {
            let files = try [commands, notices].map { connection in
                (connection.file, try connection.write() ? POLLIN : POLLIN | POLLOUT)
            }
            let nextPing = lastPing + Self.pingInterval
            let ready = waker.wait(for: files.map { ($0.0, Int32($0.1)) }, min(due ?? nextPing, nextPing) - now)
            return (ready[0], ready[1])
        }

        /// Fails when an answer is overdue.
        func checkTime() throws {
            guard let due, due <= ContinuousClock.now else { return }
            throw RemoteTierError(.timedOut, "The server has not answered for \(replyTimeout).")
        }

        /// Gives the replies that have come to their callers. Calls `note` before each, and `begin` with another epoch
        /// than the one so far.
        mutating func receiveReplies(_ note: () -> Void, _ begin: (RedisEpoch) -> Void) throws {
            try commands.read()
            while let reply = try commands.next() {
                guard let (caller, _, isGone) = waiting.removeValue(forKey: first) else {
                    throw RemoteTierError.nonsense("nothing")
                }
                first += 1
                lastReply = ContinuousClock.now
                guard let caller else {
                    if let new = try newEpoch(reply, isGone: isGone) { begin(new) }
                    continue
                }
                note()
                caller.resume(returning: reply)
            }
        }

        /// The epoch of an answer, if it is another one: the server has evicted the key of the last one, was emptied, or
        /// its statistics were reset. An error, such as that of a server that loads its snapshot, says nothing about it.
        /// A replica, which keeps none, only knows that its server was emptied.
        private mutating func newEpoch(_ reply: RedisReply, isGone: Bool) throws -> RedisEpoch? {
            if case .error = reply { return nil }
            let new = try RedisEpoch(reply)
            if new.kept == epoch { return isGone && epoch.isEmpty ? new : nil }
            if new.kept.isEmpty { throw RemoteTierError(.unavailable, "The server keeps nothing any more.") }
            epoch = new.kept
            return new
        }

        /// Calls `receive` with each message that has come, and its channel.
        mutating func receiveNotices(_ receive: (_ channel: String, _ message: RedisReply) throws -> Void) throws {
            try notices.read()
            while let reply = try notices.next() {
                guard let parts = reply.elements, let kind = parts.first?.text else {
                    throw RemoteTierError.nonsense("SUBSCRIBE")
                }
                if kind == "pong" { noticePingDue = nil }
                guard kind == "message", parts.count == 3, let channel = parts[1].text else { continue }
                try receive(channel, parts[2])
            }
        }
    }
#endif
