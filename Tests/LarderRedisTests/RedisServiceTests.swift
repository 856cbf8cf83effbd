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
            var settings = Cache<String>.Configuration(sharedTier: tier)
            settings.onEvent = { [log] in log.note($0) }
            return try TestWorld(now: Date()).cache(configuration: settings)
        }

        /// The same, once the tier has greeted it.
        private func cache(_ tier: RedisTier) async throws -> Cache<String> {
            let cache = try open(tier)
            await eventually {
                _ = await cache.value(forKey: "probe")
                return cache.statistics.shared?.misses ?? 0 > 0
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
            await eventually { !log.events(.sharedTierLost).isEmpty }
            let event = try #require(log.events(.sharedTierLost).first)
            #expect("\(event)".lowercased().contains(trouble.reason.lowercased()), "\(event)")
            // One that comes later hears of it, too.
            let late = try open(redis)
            await eventually { log.events(.sharedTierLost).count == 2 }
            for cache in [early, late] { try await cache.setValue("v", forKey: "k") }
            #expect(log.events(.sharedTierLost).count == 2)
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
            await eventually { log.events(.sharedTierLost).contains { "\($0)".contains("MISCONF") } }
            #expect(one.statistics.shared?.waiting == 1)
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
            let short = try Cache<String>(directory: home, configuration: .init(sharedTier: redis))
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
            await eventually { one.statistics.shared?.waiting == 0 }
            #expect(proxy.connections == connections)
            #expect(log.events(.sharedTierLost).isEmpty)
        }

        @Test("a large batch of values is sent, and found")
        func batch() async throws {
            let server = try RedisServer()
            let (one, two) = (try await cache(await tier(server.port)), try await cache(await tier(server.port)))
            let values = Dictionary(uniqueKeysWithValues: (0..<3000).map { ("\($0)", "v") })
            try await one.setValues(values)
            await eventually { one.statistics.shared?.waiting == 0 }
            #expect(one.statistics.shared?.dropped == 0)
            #expect(await two.values(forKeys: values.keys) == values)
        }

        @Test("a removal that was evicted is none that is forgotten, though the statistics that say so were reset")
        func resetStatistics() async throws {
            let server = try RedisServer(["--maxmemory-policy", "volatile-lru"])
            let proxy = try Proxy(to: server.port)
            let through = await tier(proxy.port)
            let (one, two) = (try await cache(await tier(server.port)), try await cache(through))
            try await one.setValue("old", forKey: "k", ttl: .forever)
            await eventually { two.statistics.shared?.notices ?? 0 > 0 }
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
            await eventually { log.events(.sharedTierConnected).count >= 3 }
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
                #expect(!log.events(.sharedTierLost).isEmpty)
            } else {
                // Changes of the other machine come after the server's notice, on the same connection: that has been
                // heard when the first of them arrives, and dealt with when the second does.
                for number in 1...2 {
                    try await two.setValue("\(number)", forKey: "l")
                    await eventually { one.statistics.shared?.notices ?? 0 >= number }
                    await eventually { await one.value(forKey: "l") == "\(number)" }
                }
                #expect(log.events(.sharedTierLost).isEmpty)
                #expect(await one.value(forKey: "k") == "v")
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
