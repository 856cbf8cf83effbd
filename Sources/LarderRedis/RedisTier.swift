#if Redis
    import Foundation
    public import Larder
    import LarderFiles

    /// A Valkey or Redis server that several machines share, as the remote tier of their caches.
    ///
    ///     let redis = RedisTier(configuration: .init(host: "cache.internal", prefix: "shop"))
    ///     let pages = try Cache<Page>(name: "pages", configuration: .init(remoteTier: redis))
    ///
    /// It needs Redis 6 or any Valkey, and hiredis. One tier serves any number of caches over two connections, and one
    /// thread does all its work. It connects in the background, and again after each failure, after a time that doubles
    /// up to half a minute. Commands are pipelined.
    public final class RedisTier: RemoteTier {
        /// The settings of a connection.
        public typealias Configuration = RedisConfiguration

        /// Ten thousand years, in milliseconds.
        private static let longestLife: Int64 = 315_360_000_000_000

        private let loop: RedisLoop
        private let names: RedisNames
        /// The longest payload that a reply has room for, beside the record. Bytes.
        private let payloadLimit: Int
        private static let longestRest = 300 << 10

        /// Creates a tier, and begins to connect in the background.
        public init(configuration: Configuration = .init()) {
            names = RedisNames(configuration.prefix)
            payloadLimit = max(0, configuration.replyLimit - Self.longestRest)
            loop = RedisLoop(configuration, names)
            loop.begin()
        }

        deinit {
            loop.stop()
        }

        /// Whether the server can be asked now.
        public var state: RemoteTierState { loop.tierState }

        /// Calls `observer` with each notice, on the thread of the tier; see `RemoteTier`.
        ///
        /// The scripts that make changes publish them. The server's own notices of changed keys would also come to the
        /// machine that has changed them: their `NOLOOP` does not hold for scripts.
        public func observe(
            as node: String, _ observer: @escaping @Sendable (RemoteNotice) -> Void
        ) -> @Sendable () -> Void {
            loop.observe(as: node, observer)
        }

        /// Returns what the server has for a key.
        ///
        /// - Throws: `RemoteTierError`: the server cannot be reached, refuses, or answers nonsense.
        public func read(_ request: RemoteRead) async throws -> RemoteReading {
            let scopes = request.known == nil ? [] : scopes(request.key, request.tags)
            let keys = [names.entry(request.key)] + scopes.map { names.generation($0) } + [names.ended, names.epoch]
            let known = request.known?.description ?? ""
            let sizeLimit = min(request.sizeLimit, payloadLimit)
            let reply = try await run(.read, keys, [known, "\(sizeLimit)"].map { Data($0.utf8) })
            guard let reading = RedisReading(reply, sizeLimit: request.sizeLimit) else {
                throw RemoteTierError(.malformed, "The server's answer to a read makes no sense.")
            }
            return reading.value
        }

        /// Stores an entry, unless the server has a newer one.
        ///
        /// - Throws: `RemoteTierError`, with the code `full` when there is no memory for it.
        public func write(_ write: RemoteWrite) async throws -> RemoteOutcome {
            try await store(write, isRenewal: false)
        }

        /// Gives an entry another life and record.
        ///
        /// - Throws: As ``write(_:)``.
        public func renew(_ write: RemoteWrite) async throws -> RemoteOutcome {
            try await store(write, isRenewal: true)
        }

        private func store(_ write: RemoteWrite, isRenewal: Bool) async throws -> RemoteOutcome {
            let scopes = scopes(write.key, write.tags)
            let keys = [names.entry(write.key)] + scopes.map { names.generation($0) } + [names.ended, names.epoch]
            let life = write.life
            // Longer ones do not fit into the server's times, and the script would end halfway.
            let remaining = life.remaining.map { min($0, Self.longestLife) }
            var arguments = [
                Data(write.version.description.utf8), Data((remaining.map { "\($0)" } ?? "").utf8),
                Data("\(life.keptStale)".utf8), Data("\(life.age)".utf8), write.entry.record, write.entry.payload,
                Data(String(write.entry.checksum, radix: 16).utf8), Data((write.isLate ? "1" : "0").utf8),
                Data((isRenewal ? "1" : "0").utf8), Data(names.changes.utf8),
                Data(names.message(write.key, write.version).utf8), Data((write.base?.description ?? "").utf8),
            ]
            for _ in scopes { arguments.append(Data(Self.newID().utf8)) }
            return try await change(.write, keys, arguments)
        }

        /// Ends the life of an entry.
        ///
        /// - Throws: As ``read(_:)``.
        public func expire(_ key: RemoteKey, version: RemoteVersion) async throws -> RemoteOutcome {
            try await remove(key, version, isExpiry: true)
        }

        /// Removes an entry, and leaves a tombstone.
        ///
        /// - Throws: As ``read(_:)``.
        public func remove(_ key: RemoteKey, version: RemoteVersion) async throws -> RemoteOutcome {
            try await remove(key, version, isExpiry: false)
        }

        private func remove(
            _ key: RemoteKey, _ version: RemoteVersion, isExpiry: Bool
        ) async throws -> RemoteOutcome {
            let memory = RemoteTierPolicy.removalMemory.components.seconds * 1000
            let arguments = [
                version.description, "\(memory)", isExpiry ? "1" : "0", names.changes, names.message(key, version),
            ]
            return try await change(.remove, [names.entry(key), names.ended], arguments.map { Data($0.utf8) })
        }

        /// Replaces the generation of a namespace or a tag.
        ///
        /// - Throws: As ``read(_:)``.
        public func clear(_ scope: RemoteScope, version: RemoteVersion, isExpiry: Bool) async throws {
            let message = names.message(scope, version, isExpiry: isExpiry)
            let arguments = [version.description, Self.newID(), names.clears, message]
            _ = try await run(.clear, [names.generation(scope), names.epoch], arguments.map { Data($0.utf8) })
        }

        /// Takes the right to fetch a key, for `holder` and at most `duration`. Returns false while another has it.
        ///
        /// - Throws: As ``read(_:)``.
        public func lease(_ key: RemoteKey, holder: String, for duration: Duration) async throws -> Bool {
            let milliseconds = max(1, Int64(duration / .milliseconds(1)))
            let reply = try await run(.lease, [names.lease(key)], [holder, "\(milliseconds)"].map { Data($0.utf8) })
            return reply != .none
        }

        /// Gives the right back, if `holder` still has it.
        ///
        /// - Throws: As ``read(_:)``.
        public func endLease(_ key: RemoteKey, holder: String) async throws {
            let arguments = [holder, names.ends, names.end(key)].map { Data($0.utf8) }
            _ = try await run(.endLease, [names.lease(key)], arguments)
        }

        private func scopes(_ key: RemoteKey, _ tags: [String]) -> [RemoteScope] {
            [RemoteScope(namespace: key.namespace)] + tags.map { RemoteScope(namespace: key.namespace, tag: $0) }
        }

        private static func newID() -> String {
            let digits = String(UInt64.random(in: 1 ... .max), radix: 16)
            return String(repeating: "0", count: 16 - digits.utf8.count) + digits
        }

        private func change(
            _ script: RedisScript, _ keys: [String], _ arguments: [Data]
        ) async throws -> RemoteOutcome {
            let outcome = RedisReading.outcome(try await run(script, keys, arguments))
            guard let outcome else {
                throw RemoteTierError(.malformed, "The server's answer to a change makes no sense.")
            }
            return outcome
        }

        private func run(_ script: RedisScript, _ keys: [String], _ arguments: [Data]) async throws -> RedisReply {
            let rest = [Data("\(keys.count)".utf8)] + keys.map { Data($0.utf8) } + arguments
            guard let digest = loop.digest(of: script) else {
                throw RemoteTierError(.unavailable, "There is no connection.")
            }
            let reply = try await loop.send([Data("EVALSHA".utf8), Data(digest.utf8)] + rest)
            if case .error(let message) = reply, message.hasPrefix("NOSCRIPT") {
                return try Self.checked(try await loop.send([Data("EVAL".utf8), Data(script.text.utf8)] + rest))
            }
            return try Self.checked(reply)
        }

        private static func checked(_ reply: RedisReply) throws -> RedisReply {
            guard case .error(let message) = reply else { return reply }
            if message.contains("OOM ") { throw RemoteTierError(.full, message) }
            if message.contains("READONLY ") { throw RemoteTierError(.readOnly, message) }
            // Another program's value under one of our names says nothing about the server.
            if message.contains("WRONGTYPE ") { throw RemoteTierError(.malformed, message) }
            throw RemoteTierError(.unavailable, message)
        }
    }
#endif
