#if Redis
    import CHiredis
    import Foundation
    import Larder
    import LarderFiles

    /// One reply of a server, copied: bytes that nobody has checked.
    enum RedisReply: Sendable, Equatable {
        case none
        case integer(Int64)
        case bytes(Data)
        case error(String)
        case array([RedisReply])

        init(_ reply: UnsafePointer<redisReply>) {
            let content = reply.pointee
            switch content.type {
            case REDIS_REPLY_INTEGER: self = .integer(content.integer)
            case REDIS_REPLY_STRING, REDIS_REPLY_STATUS: self = .bytes(Self.bytes(content))
            case REDIS_REPLY_ERROR:
                let text = Self.bytes(content).prefix(Self.longestError)
                self = .error(String(decoding: text, as: UTF8.self))
            case REDIS_REPLY_ARRAY:
                let elements = UnsafeBufferPointer(start: content.element, count: Int(content.elements))
                self = .array(elements.map { $0.map { RedisReply($0) } ?? .none })
            default: self = .none
            }
        }

        /// The part of an error's text that is kept, for messages. Bytes.
        private static let longestError = 300

        private static func bytes(_ content: redisReply) -> Data {
            content.str.map { Data(bytes: $0, count: Int(content.len)) } ?? Data()
        }

        var data: Data? {
            if case .bytes(let data) = self { return data }
            return nil
        }

        var text: String? { data.map { String(decoding: $0, as: UTF8.self) } }

        var number: Int64? {
            if case .integer(let number) = self { return number }
            return text.flatMap { Int64($0) }
        }

        var elements: [RedisReply]? {
            if case .array(let elements) = self { return elements }
            return nil
        }
    }

    /// A connection with a server, used by the thread of the loop alone. It blocks while it is being made, and never
    /// afterwards.
    final class RedisConnection {
        private let context: UnsafeMutablePointer<redisContext>
        private let settings: RedisConfiguration
        /// The bytes that have come since the last whole reply.
        private var received = 0

        /// hiredis keeps the functions that bound its replies in one place.
        private static let prepare: @Sendable (UnsafeMutablePointer<redisContext>) -> Void = { context in
            isPrepared.withLock { isPrepared in
                if !isPrepared { chiredis_prepare(context) }
                isPrepared = true
            }
        }
        private static let isPrepared = ProcessLock(false)

        init(_ settings: RedisConfiguration) throws {
            let limit = Self.time(settings.connectTimeout)
            let port = Int32(clamping: settings.port)
            let opened =
                settings.socketPath.map { redisConnectUnixWithTimeout($0, limit) }
                ?? redisConnectWithTimeout(settings.host, port, limit)
            guard let opened else { throw RemoteTierError(.unavailable, "There is no memory for a connection.") }
            context = opened
            self.settings = settings
            Self.prepare(context)
            if context.pointee.err != 0 { throw failure("connect") }
            // Before TLS, whose greetings a silent server would otherwise keep waiting for ever.
            redisSetTimeout(context, Self.time(settings.replyTimeout))
            if settings.usesTLS,
                let reason = chiredis_begin_tls(context, settings.certificatesPath, settings.host)
            {
                throw RemoteTierError(.unsupported, "TLS cannot be used: \(String(cString: reason)).")
            }
            // On the socket of a file it would fail, and with it the connection.
            if settings.socketPath == nil { redisEnableKeepAlive(context) }
            guard chiredis_bound(context) else {
                throw RemoteTierError(.unavailable, "There is no memory for a connection.")
            }
            // A program that this one starts must not keep the connection.
            _ = fcntl(file, F_SETFD, FD_CLOEXEC)
        }

        deinit {
            chiredis_unbound(context)
            redisFree(context)
        }

        private static func time(_ duration: Duration) -> timeval {
            let (seconds, attoseconds) = duration.components
            return timeval(tv_sec: Int(seconds), tv_usec: .init(attoseconds / 1_000_000_000_000))
        }

        var file: Int32 { Int32(context.pointee.fd) }

        private func failure(_ action: String) -> RemoteTierError {
            RemoteTierError(
                .unavailable, "The server has failed to \(action): \(String(cString: chiredis_error(context))).")
        }

        func append(_ command: [Data]) {
            // The bytes of all arguments in one piece, so that all pointers are valid at the same time.
            var joined = command.reduce(into: Data()) { $0.append($1) }
            // There is an address even if all are empty.
            joined.append(0)
            let lengths = command.map(\.count)
            joined.withUnsafeBytes { bytes in
                let start = bytes.bindMemory(to: CChar.self).baseAddress
                var offset = 0
                var pointers: [UnsafePointer<CChar>?] = []
                for length in lengths {
                    pointers.append(start.map { $0 + offset })
                    offset += length
                }
                redisAppendCommandArgv(context, Int32(command.count), &pointers, lengths)
            }
        }

        /// Sends a command and waits for the reply, while the connection is being made.
        func run(_ command: [String]) throws -> RedisReply {
            append(command.map { Data($0.utf8) })
            let due = ContinuousClock.now + settings.replyTimeout
            while try !write() {}
            while ContinuousClock.now < due {
                guard let reply = try next() else {
                    try read()
                    continue
                }
                guard case .error(let message) = reply else { return reply }
                throw RemoteTierError(.unavailable, "The server refuses \(command[0]): \(message)")
            }
            throw RemoteTierError(.timedOut, "The server has not answered for \(settings.replyTimeout).")
        }

        /// From here on, nothing blocks.
        func unblock() {
            chiredis_unblock(context)
            let flags = fcntl(file, F_GETFL)
            _ = fcntl(file, F_SETFL, flags | O_NONBLOCK)
        }

        /// Sends what waits. Returns whether that is all.
        func write() throws -> Bool {
            var isDone: Int32 = 0
            guard redisBufferWrite(context, &isDone) == REDIS_OK else { throw failure("read") }
            return isDone != 0
        }

        /// Reads what has arrived.
        func read() throws {
            let before = chiredis_waiting(context)
            guard redisBufferRead(context) == REDIS_OK else { throw failure("answer") }
            received += max(0, chiredis_waiting(context) - before)
            if received > settings.replyLimit {
                throw RemoteTierError(.malformed, "A reply is longer than \(settings.replyLimit) bytes.")
            }
        }

        /// The next whole reply.
        func next() throws -> RedisReply? {
            var reply: UnsafeMutableRawPointer?
            guard redisGetReplyFromReader(context, &reply) == REDIS_OK else { throw failure("answer") }
            guard let reply else { return nil }
            defer { freeReplyObject(reply) }
            received = chiredis_waiting(context)
            chiredis_begin_reply(context)
            return RedisReply(reply.assumingMemoryBound(to: redisReply.self))
        }
    }

    extension RemoteTierError {
        static func nonsense(_ command: String) -> RemoteTierError {
            RemoteTierError(.malformed, "The server's answer to \(command) makes no sense.")
        }
    }
#endif
