#if Redis
    import Foundation
    import Larder
    import LarderFiles
    import LarderRedis
    import LarderTestSupport
    import LarderTesting
    import Testing

    /// What goes wrong with servers in service, and what their administrators do.
    @Suite("A Redis in service", .serialized, .timeLimit(.minutes(10)))
    struct RedisServiceTests {
        /// The events of a cache.
        private final class Log: Sendable {
            private let events = Lock<[CacheEvent]>([])

            func note(_ event: CacheEvent) {
                events.withLock { $0.append(event) }
            }

            func events(_ kind: CacheEvent.Kind) -> [CacheEvent] { events.withLock { $0.filter { $0.kind == kind } } }
        }

        private let log = Log()

        private func tier(_ port: Int, _ change: (inout RedisTier.Configuration) -> Void = { _ in }) async -> RedisTier
        {
            var configuration = RedisTier.Configuration(port: port, prefix: "t")
            change(&configuration)
            let tier = RedisTier(configuration: configuration)
            await eventually { tier.isConnected }
            return tier
        }

        /// Opens the cache of a machine whose clock stands still, so that it has no timeouts.
        private func open(_ tier: RedisTier) throws -> Cache<String> {
            var settings = Cache<String>.Configuration(remoteTier: tier)
            settings.onEvent = { [log] in log.note($0) }
            return try TestWorld(now: Date()).cache(configuration: settings)
        }

        /// The same, once the tier has greeted it.
        private func cache(_ tier: RedisTier) async throws -> Cache<String> {
            let cache = try open(tier)
            await eventually {
                _ = await cache.value(forKey: "probe")
                return cache.statistics.remote?.misses ?? 0 > 0
            }
            return cache
        }

        enum Trouble: CaseIterable {
            case refusing, password, loading

            var reason: String {
                switch self {
                case .refusing: "refused"
                case .password: "WRONGPASS"
                case .loading: "LOADING"
                }
            }
        }

        @Test("a server that is never reached is an event with the reason", arguments: Trouble.allCases)
        func neverReached(_ trouble: Trouble) async throws {
            let server = try RedisServer(["--requirepass", "secret"])
            _ = await tier(server.port) { $0.password = "secret" }
            let fake = try FakeRedis {
                $0.contains("CLIENT") ? .init(start: Array("-LOADING Redis is loading the dataset\r\n".utf8)) : nil
            }
            var settings = RedisTier.Configuration(port: server.port, password: "wrong")
            if trouble == .refusing { settings = .init(port: try RedisServer.freePort()) }
            if trouble == .loading { settings = .init(port: fake.port) }
            let redis = RedisTier(configuration: settings)
            let early = try open(redis)
            await eventually { !log.events(.remoteTierLost).isEmpty }
            let event = try #require(log.events(.remoteTierLost).first)
            #expect("\(event)".lowercased().contains(trouble.reason.lowercased()), "\(event)")
            // One that comes later hears of it, too.
            let late = try open(redis)
            await eventually { log.events(.remoteTierLost).count == 2 }
            for cache in [early, late] { try await cache.setValue("v", forKey: "k") }
            #expect(log.events(.remoteTierLost).count == 2)
        }

        @Test("a server that cannot write its snapshot takes no changes, which is an event; they wait")
        func misconfigured() async throws {
            let server = try FakeRedis {
                $0.contains("EVALSHA") ? .init(start: Array("-MISCONF Redis cannot save a snapshot\r\n".utf8)) : nil
            }
            let redis = RedisTier(configuration: .init(port: server.port))
            await eventually { redis.isConnected }
            let one = try open(redis)
            try await one.setValue("v", forKey: "k")
            await eventually { log.events(.remoteTierLost).contains { "\($0)".contains("MISCONF") } }
            #expect(one.statistics.remote?.waiting == 1)
            #expect(await one.value(forKey: "k") == "v")
        }

        @Test("a cache that is closed as soon as it was opened has sent its changes")
        func shortLived() async throws {
            let server = try RedisServer()
            let other = try await cache(await tier(server.port))
            try await other.setValue("old", forKey: "k")
            let home = FileManager.default.temporaryDirectory.appendingPathComponent("larder-short-\(UUID())")
            defer { try? FileManager.default.removeItem(at: home) }
            let redis = RedisTier(configuration: .init(port: server.port, prefix: "t"))
            let short = try Cache<String>(directory: home, configuration: .init(remoteTier: redis))
            try await short.removeValue(forKey: "k")
            try await short.close()
            await eventually { await other.value(forKey: "k") == nil }
        }

        @Test(
            "keys and tags of any characters are invalidated",
            arguments: ["plain", "\u{FEFF}k", "nul\u{0}", "cr\r\nlf", "glob*?[", "e\u{301}", "\u{301}e", ":", "8:x"])
        func names(_ name: String) async throws {
            let server = try RedisServer()
            let (one, two) = (try await cache(await tier(server.port)), try await cache(await tier(server.port)))
            try await one.setValue("old", forKey: name, tags: [name])
            await eventually { await two.value(forKey: name) == "old" }
            try await one.setValue("new", forKey: name, tags: [name])
            await eventually { await two.value(forKey: name) == "new" }
            try await one.removeAll(tagged: name)
            await eventually { await two.value(forKey: name) == nil }
        }

        @Test("values for which a slow link needs longer than for a reply cost no connection")
        func slowUpload() async throws {
            let server = try RedisServer()
            let proxy = try Proxy(to: server.port, rate: 6_000_000)
            // Less than the five seconds of the whole; on a busy machine a thread waits for its turn for a second.
            let one = try await cache(await tier(proxy.port) { $0.replyTimeout = .seconds(3) })
            let connections = proxy.connections
            let value = String(repeating: "x", count: 1_000_000)
            try await one.setValues(Dictionary(uniqueKeysWithValues: (0..<30).map { ("\($0)", value) }))
            await eventually { one.statistics.remote?.waiting == 0 }
            #expect(proxy.connections == connections)
            #expect(log.events(.remoteTierLost).isEmpty)
        }

        @Test("a large batch of values is sent, and found")
        func batch() async throws {
            let server = try RedisServer()
            let (one, two) = (try await cache(await tier(server.port)), try await cache(await tier(server.port)))
            let values = Dictionary(uniqueKeysWithValues: (0..<3000).map { ("\($0)", "v") })
            try await one.setValues(values)
            await eventually { one.statistics.remote?.waiting == 0 }
            #expect(one.statistics.remote?.dropped == 0)
            #expect(await two.values(forKeys: values.keys) == values)
        }

        @Test("a removal that was evicted is none that is forgotten, though the statistics that say so were reset")
        func resetStatistics() async throws {
            let server = try RedisServer(["--maxmemory-policy", "volatile-lru"])
            let proxy = try Proxy(to: server.port)
            let through = await tier(proxy.port)
            let (one, two) = (try await cache(await tier(server.port)), try await cache(through))
            try await one.setValue("old", forKey: "k", ttl: .forever)
            await eventually { two.statistics.remote?.notices ?? 0 > 0 }
            await eventually { await two.value(forKey: "k") == "old" }
            proxy.set(.cutting)
            await eventually { !through.isConnected }
            try await one.removeValue(forKey: "k")
            // Evicts what has an end, the tombstone included.
            try server.command("CONFIG", "SET", "maxmemory", "1")
            try server.command("SETEX", "x", "100", "x")
            try server.command("CONFIG", "SET", "maxmemory", "0")
            try server.command("CONFIG", "RESETSTAT")
            proxy.set(.passing)
            await eventually { through.isConnected }
            // The tier greets the cache on its own thread; the copy is unverified from then on.
            await eventually { log.events(.remoteTierConnected).count >= 3 }
            #expect(await two.value(forKey: "k") == nil)
        }

        @Test("emptying another database costs nothing; emptying the own one begins another epoch", arguments: [5, 0])
        func emptied(_ database: Int) async throws {
            let server = try RedisServer()
            let redis = await tier(server.port)
            let (one, two) = (try await cache(redis), try await cache(await tier(server.port)))
            try await one.setValue("v", forKey: "k")
            try server.command("FLUSHDB", database: database)
            if database == 0 {
                await eventually { await one.value(forKey: "k") == nil }
                #expect(log.events(.remoteTierLost).isEmpty, "on the same connection")
            } else {
                // Changes of the other machine come after the server's notice, on the same connection: that has been
                // heard when the first of them arrives, and dealt with when the second does.
                for number in 1...2 {
                    try await two.setValue("\(number)", forKey: "l")
                    await eventually { one.statistics.remote?.notices ?? 0 >= number }
                    await eventually { await one.value(forKey: "l") == "\(number)" }
                }
                #expect(log.events(.remoteTierLost).isEmpty)
                #expect(await one.value(forKey: "k") == "v")
            }
        }

        @Test("an evicted epoch begins anew on the same connection, and copies are asked for")
        func evictedEpoch() async throws {
            let server = try RedisServer()
            let redis = await tier(server.port)
            let (one, two) = (try await cache(redis), try await cache(await tier(server.port)))
            try await one.setValue("v", forKey: "k")
            let before = redis.state
            for key in ["e", "k:0:k"] { try server.command("DEL", "t:larder1:\(key)") }
            // All machines ask for the epoch at once.
            try server.command("FLUSHDB", database: 5)
            await eventually { redis.isConnected && redis.state != before }
            await eventually { await one.value(forKey: "k") == nil }
            for number in 0..<3 {
                try await two.setValue("\(number)", forKey: "k")
                await eventually { await one.value(forKey: "k") == "\(number)" }
                try server.command("DEL", "t:larder1:e")
                try server.command("FLUSHDB", database: 5)
            }
            #expect(log.events(.remoteTierLost).isEmpty)
        }

        @Test("the question for the epoch may wait for its answer, however long nobody has asked anything")
        func idle() async throws {
            let server = try RedisServer()
            let redis = await tier(server.port) { $0.replyTimeout = .milliseconds(200) }
            let one = try await cache(redis)
            let begin = ContinuousClock.now
            while ContinuousClock.now - begin < .milliseconds(400) { try server.command("PING") }
            for number in 0..<5 {
                try server.command("FLUSHDB", database: 5)
                try await one.setValue("\(number)", forKey: "k")
            }
            await eventually { one.statistics.remote?.waiting == 0 }
            #expect(log.events(.remoteTierLost).isEmpty)
        }

        /// Commands that put something else under a name of ours.
        static let intruders: [(name: String, command: [String])] = [
            ("k:0:k", ["SET", "x"]), ("k:0:k", ["LPUSH", "x"]), ("k:0:k", ["HSET", "v", "zzz"]),
            ("k:0:k", ["HSET", "v", String(repeating: "f", count: 32)]), ("k:0:k", ["HSET", "v", "1", "p", "x"]),
            ("k:0:k", ["HSET", "v", String(repeating: "0", count: 32), "n", "x", "k", "y", "s", "z"]),
            ("g:0:n", ["LPUSH", "x"]), ("g:0:n", ["SET", "x"]), ("g:0:n", ["SET", "a:b:c"]), ("e", ["LPUSH", "x"]),
            ("e", ["SET", "x"]), ("h", ["SET", "x"]), ("h", ["HSET", "floor", "zzz", "last", "zzz"]),
        ]

        @Test(
            "what is not ours under a name of ours harms no other key, and goes with the next change",
            arguments: intruders)
        func foreign(_ name: String, _ command: [String]) async throws {
            let server = try RedisServer()
            let (one, two) = (try await cache(await tier(server.port)), try await cache(await tier(server.port)))
            try await one.setValue("old", forKey: "k")
            await eventually { await two.value(forKey: "k") == "old" }
            try server.command("DEL", "t:larder1:\(name)")
            try server.command([command[0], "t:larder1:\(name)"] + command.dropFirst())
            let three = try await cache(await tier(server.port))
            _ = await three.value(forKey: "k")
            for (number, key) in ["other", "k", "third"].enumerated() {
                try await one.setValue("\(number)", forKey: key)
                await eventually { await two.value(forKey: key) == "\(number)" }
                await eventually { await three.value(forKey: key) == "\(number)" }
            }
            try await one.setValue("short", forKey: "k", ttl: .seconds(60))
            await eventually { await two.value(forKey: "k") == "short" }
            try await one.removeAll()
            await eventually { await two.value(forKey: "k") == nil }
            try await one.removeValue(forKey: "k")
            #expect(one.statistics.remote?.waiting == 0 && one.statistics.remote?.failures == 0)
            #expect(log.events(.remoteTierLost).isEmpty)
        }

        @Test("an expiry of a damaged value delays no other change", arguments: ["1.5", "9e99", "1e15"])
        func foreignExpiry(_ kept: String) async throws {
            let server = try RedisServer()
            let (one, two) = (try await cache(await tier(server.port)), try await cache(await tier(server.port)))
            try server.command("DEL", "t:larder1:k:0:k")
            try server.command("HSET", "t:larder1:k:0:k", "v", String(repeating: "0", count: 32), "k", kept)
            _ = try await one.expireValue(forKey: "k")
            await eventually { one.statistics.remote?.waiting == 0 }
            #expect(one.statistics.remote?.failures == 0)
            try await one.setValue("v", forKey: "other")
            await eventually { await two.value(forKey: "other") == "v" }
        }

        @Test("a damaged epoch is replaced, and harms no tag")
        func damagedEpoch() async throws {
            let server = try RedisServer()
            let (one, two) = (try await cache(await tier(server.port)), try await cache(await tier(server.port)))
            let run = "local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') "
            try server.command("EVAL", run + "redis.call('SET', KEYS[1], '1:' .. run .. ':f:0:0')", "1", "t:larder1:e")
            try server.command("DEL", "t:larder1:g:0:n")
            try await one.setValue("v", forKey: "k")
            await eventually { await two.value(forKey: "k") == "v" }
        }

        @Test("a replica drops its copies when its master is emptied")
        func emptiedReplica() async throws {
            let master = try RedisServer()
            let two = try await cache(await tier(master.port))
            let server = try RedisServer(["--replicaof", "127.0.0.1 \(master.port)"])
            let one = try await cache(await tier(server.port))
            try await two.setValue("v", forKey: "k")
            await eventually { await one.value(forKey: "k") == "v" }
            try master.command("FLUSHALL")
            await eventually { await one.value(forKey: "k") == nil }
        }

        @Test("a record that is too long for a reply counts as missing, and ends no connection")
        func longRecord() async throws {
            let server = try RedisServer()
            let one = try await cache(await tier(server.port))
            let fields =
                "'v', string.rep('0', 32), 'k', '0', 's', '0', 'p', 'x', 'c', '0', 'r', string.rep('x', 9000000)"
            try server.command("EVAL", "redis.call('HSET', KEYS[1], \(fields))", "1", "t:larder1:k:0:k")
            for _ in 0..<3 { #expect(await one.value(forKey: "k") == nil) }
            try await one.setValue("v", forKey: "k")
            await eventually { one.statistics.remote?.waiting == 0 }
            #expect(log.events(.remoteTierLost).isEmpty)
        }

        @Test("a key of a lease that never ends is no lease")
        func foreignLease() async throws {
            let server = try RedisServer()
            let redis = await tier(server.port)
            let key = RemoteKey(key: "k")
            for command in ["SET", "LPUSH"] {
                try server.command(command, "t:larder1:l:0:k", "x")
                #expect(try await redis.lease(key, holder: "1", for: .seconds(60)))
                #expect(try await !redis.lease(key, holder: "2", for: .seconds(60)))
                try server.command("DEL", "t:larder1:l:0:k")
                try server.command(command, "t:larder1:l:0:k", "x")
                try await redis.endLease(key, holder: "1")
                try server.command("DEL", "t:larder1:l:0:k")
            }
        }

        @Test("a key that an administrator deletes stays with the machines that have a copy")
        func deleted() async throws {
            let server = try RedisServer()
            let tiers = [await tier(server.port), await tier(server.port)]
            let (one, two) = (try await cache(tiers[0]), try await cache(tiers[1]))
            try await one.setValue("v", forKey: "k")
            await eventually { await two.value(forKey: "k") == "v" }
            try server.command("DEL", "t:larder1:k:0:k")
            #expect(await one.value(forKey: "k") == "v")
            #expect(await two.value(forKey: "k") == "v")
            let three = try await cache(await tier(server.port))
            #expect(await three.value(forKey: "k") == nil)
        }

        @Test("a user without a password is one all the same, and no description shows the password")
        func users() async throws {
            let server = try RedisServer(["--user", "open", "on", "nopass", "~*", "&*", "+@all"])
            let open = await tier(server.port) { $0.username = "open" }
            #expect(open.isConnected)
            let nobody = RedisTier(configuration: .init(port: server.port, username: "nobody"))
            await eventually { nobody.reason.contains("WRONGPASS") }
            let settings = RedisTier.Configuration(host: "h", username: "u", password: "secret", usesTLS: true)
            #expect("\(settings)" == "u@h:6379, database 0, prefix \"cache\", TLS")
            var text = ""
            dump([settings], to: &text)
            #expect(!text.contains("secret") && !String(reflecting: settings).contains("secret"))
        }
    }
#endif
