#if Redis
    import Foundation
    import Larder
    import LarderFiles
    import LarderRedis
    import LarderTestSupport
    import LarderTesting
    import Testing

    /// Each test has a server of its own. Waiting ends when something has happened, never by time alone.
    @Suite("A Redis as the remote tier", .serialized, .timeLimit(.minutes(10)))
    struct RedisTierTests {
        private func tier(_ port: Int, _ change: (inout RedisTier.Configuration) -> Void = { _ in }) async -> RedisTier
        {
            var configuration = RedisTier.Configuration(port: port, prefix: "t")
            configuration.replyTimeout = .milliseconds(500)
            change(&configuration)
            let tier = RedisTier(configuration: configuration)
            await eventually { tier.isConnected }
            return tier
        }

        /// A machine with a disk in memory that uses the tier. Its clock stands still, so it has no timeouts.
        private func cache(
            _ tier: RedisTier, _ change: (inout Cache<String>.Configuration) -> Void = { _ in }
        ) async throws -> Cache<String> {
            var settings = Cache<String>.Configuration(remoteTier: tier)
            change(&settings)
            let cache: Cache<String> = try TestWorld(now: Date()).cache(configuration: settings)
            // The tier greets it on its own thread.
            await eventually {
                _ = await cache.value(forKey: "probe")
                return cache.statistics.remote?.misses ?? 0 > 0
            }
            return cache
        }

        @Test("a cache that is opened over a connection uses it from its first call on")
        func firstCall() async throws {
            let server = try RedisServer()
            let (tier, other) = (await tier(server.port), await tier(server.port))
            try await cache(tier).setValue("v", forKey: "k")
            var number = 0
            while number < 50 {
                let begin = ContinuousClock.now
                let fresh: Cache<String> = try TestWorld(now: Date()).cache(
                    configuration: Cache<String>.Configuration(remoteTier: other))
                // On a busy machine the opening may have waited in vain.
                if ContinuousClock.now - begin > .milliseconds(90) { continue }
                number += 1
                #expect(await fresh.value(forKey: "k") == "v")
            }
        }

        @Test("values, removals, renewals, expiries and clears reach the other machine")
        func changes() async throws {
            let server = try RedisServer()
            let tiers = [await tier(server.port), await tier(server.port)]
            let (one, two) = (try await cache(tiers[0]), try await cache(tiers[1]))
            try await one.setValue(
                "é", forKey: "clé", ttl: .hours(1), keepStale: .hours(1), metadata: ["m": "1"], tags: ["t"])
            let found = try #require(await two.lookup(forKey: "clé"))
            #expect(found.value == "é" && found.source == .remote && found.metadata == ["m": "1"])
            let left = try #require(found.expiresAt).timeIntervalSinceNow
            #expect(left > 3000 && left <= 3601)
            try await one.setValue("new", forKey: "clé", ttl: .hours(1), keepStale: .hours(1), tags: ["t"])
            await eventually { await two.value(forKey: "clé") == "new" }
            try await two.setTimeToLive(.hours(9), forKey: "clé")
            await eventually { await one.lookup(forKey: "clé")?.expiresAt?.timeIntervalSinceNow ?? 0 > 8 * 3600 }
            try await two.expireValue(forKey: "clé")
            await eventually { await one.value(forKey: "clé") == nil }
            #expect(await one.value(forKey: "clé", allowingStale: true) == "new")
            try await one.setValue("again", forKey: "clé", tags: ["t"])
            try await one.setValue("b", forKey: "b")
            await eventually { await two.values(forKeys: ["clé", "b"]) == ["clé": "again", "b": "b"] }
            try await one.removeAll(tagged: "t")
            await eventually { await two.values(forKeys: ["clé", "b"]) == ["b": "b"] }
            try await two.removeAll()
            await eventually { await one.value(forKey: "b") == nil }
            try await one.setValue("c", forKey: "c")
            try await one.removeValue(forKey: "c")
            #expect(await two.value(forKey: "c") == nil)
            #expect(try await two.optionalValue(forKey: "d") { nil } == nil)
        }

        @Test("versions that differ in the last digit are ordered, and a late write replaces nothing")
        func order() async throws {
            let server = try RedisServer()
            let redis = await tier(server.port)
            let key = RemoteKey(key: "k")
            let time = String(Int64(Date().timeIntervalSince1970 * 1000), radix: 16)
            let start = String(repeating: "0", count: 12 - time.utf8.count) + time + "0000000000000000000"
            let (low, high) = (RemoteVersion(start + "1")!, RemoteVersion(start + "2")!)
            func write(_ version: RemoteVersion, _ text: String, late: Bool = false) async throws -> RemoteOutcome {
                let entry = RemoteEntry(payload: Data(text.utf8), record: Data("r".utf8), checksum: 7)
                return try await redis.write(
                    RemoteWrite(
                        key: key, version: version, entry: entry,
                        life: .init(remaining: 60_000, keptStale: 0, age: 0), isLate: late))
            }
            #expect(try await write(high, "high") == .done)
            #expect(try await write(low, "low") == .superseded(high))
            #expect(try await write(high, "high") == .done)
            let reading = try await redis.read(RemoteRead(key: key, sizeLimit: 100))
            guard case .value(let entry, high, let life) = reading.finding else {
                throw CancellationError()
            }
            #expect(entry.payload == Data("high".utf8) && entry.checksum == 7)
            #expect(life.remaining! > 50_000 && life.remaining! <= 60_000)
            #expect(try await redis.remove(key, version: low) == .superseded(high))
            #expect(try await redis.remove(key, version: high) == .done)
            #expect(try await redis.read(RemoteRead(key: key, sizeLimit: 100)).finding == .removed(high))
            #expect(try await write(low, "low") == .superseded(high))
            let future = RemoteVersion("f" + start.dropFirst() + "1")!
            guard case .ahead = try await write(future, "future") else { throw CancellationError() }
            #expect(try await redis.read(RemoteRead(key: RemoteKey(key: "x"), sizeLimit: 1)).finding == .missing)
        }

        @Test("the server is killed and starts empty: local answers go on, and both machines agree again")
        func killed() async throws {
            let server = try RedisServer()
            let tiers = [await tier(server.port), await tier(server.port)]
            let (one, two) = (try await cache(tiers[0]), try await cache(tiers[1]))
            try await one.setValue("old", forKey: "k")
            await eventually { await two.value(forKey: "k") == "old" }
            server.kill()
            await eventually { !tiers[0].isConnected && !tiers[1].isConnected }
            try await one.setValue("new", forKey: "k")
            #expect(await one.value(forKey: "k") == "new")
            #expect(await two.value(forKey: "k") == "old")
            try server.start()
            await eventually { tiers[0].isConnected && tiers[1].isConnected }
            await eventually { one.statistics.remote?.waiting == 0 }
            let values = [await one.value(forKey: "k"), await two.value(forKey: "k")]
            #expect(values == [nil, nil])
            try await one.setValue("newer", forKey: "k")
            await eventually { await two.value(forKey: "k") == "newer" }
        }

        @Test("a server that is paused ends the connection; it comes back with what waited")
        func paused() async throws {
            let server = try RedisServer()
            let tiers = [await tier(server.port), await tier(server.port)]
            let (one, two) = (try await cache(tiers[0]), try await cache(tiers[1]))
            try await one.setValue("1", forKey: "a")
            await eventually { await two.value(forKey: "a") == "1" }
            server.pause()
            let set = Task { try await one.setValue("2", forKey: "a") }
            await eventually { !tiers[0].isConnected }
            try await set.value
            #expect(await one.value(forKey: "a") == "2")
            server.resume()
            await eventually { tiers[0].isConnected && tiers[1].isConnected }
            await eventually { one.statistics.remote?.waiting == 0 }
            await eventually { await two.value(forKey: "a") == "2" }
        }

        @Test("a proxy that is silent, cuts, corrupts or never ends a reply costs the connection, and no answer")
        func proxied() async throws {
            let server = try RedisServer()
            let proxy = try Proxy(to: server.port)
            let through = await tier(proxy.port)
            let direct = await tier(server.port)
            let (one, two) = (try await cache(through), try await cache(direct))
            for (number, mode) in [Proxy.Mode.cutting, .silent, .corrupting, .endless].enumerated() {
                try await one.setValue("\(number)", forKey: "k")
                await eventually { await two.value(forKey: "k") == "\(number)" }
                proxy.set(mode)
                let set = Task { try await one.setValue("\(number)b", forKey: "k") }
                await eventually { !through.isConnected }
                try await set.value
                let local = await one.value(forKey: "k")
                #expect(local == "\(number)b", "\(mode): \(one.statistics) \(through.state)")
                proxy.set(.passing)
                await eventually { through.isConnected && one.statistics.remote?.waiting == 0 }
                await eventually { await two.value(forKey: "k") == "\(number)b" }
            }
        }

        @Test("answers that are late are misses at the timeout, and harm nothing when they come")
        func late() async throws {
            let server = try RedisServer()
            let proxy = try Proxy(to: server.port)
            // The connection must not end before the calls.
            let through = await tier(proxy.port) { $0.replyTimeout = .seconds(600) }
            let direct = await tier(server.port)
            let home = FileManager.default.temporaryDirectory.appendingPathComponent("larder-late-\(UUID())")
            defer { try? FileManager.default.removeItem(at: home) }
            // Its clock is the real one, and the timeout the usual 100 ms.
            let one = try Cache<String>(directory: home, configuration: .init(remoteTier: through))
            let two = try await cache(direct)
            try await two.setValue("v", forKey: "k")
            try await two.setValue("v", forKey: "l")
            await eventually { await one.value(forKey: "k") == "v" }
            // The copy comes into memory after the answer.
            await eventually { one.memory?.value(forKey: "k") == "v" }
            proxy.set(.holding)
            #expect(await one.value(forKey: "k") == "v")
            #expect(await one.value(forKey: "l") == nil)
            #expect(try await one.value(forKey: "m") { "fetched" } == "fetched")
            try await one.setValue("w", forKey: "n")
            #expect(await one.value(forKey: "n") == "w")
            #expect(through.isConnected && (one.statistics.remote?.failures ?? 0) >= 2)
            #expect(await two.value(forKey: "k") == "v")
            proxy.set(.passing)
            await eventually { one.statistics.remote?.waiting == 0 }
            await eventually { await one.value(forKey: "l") == "v" }
            await eventually { await two.values(forKeys: ["m", "n"]) == ["m": "fetched", "n": "w"] }
            try await one.close()
        }

        @Test("a full server refuses values, and takes removals and clears, which hold afterwards")
        func fullServer() async throws {
            let server = try RedisServer(["--maxmemory-policy", "noeviction"])
            let question = RemoteRead(key: RemoteKey(key: "k"), sizeLimit: 9)
            let redis = await tier(server.port)
            let time = Int64(Date().timeIntervalSince1970 * 1000)
            func version(_ offset: Int64) -> RemoteVersion {
                let digits = String(time + offset, radix: 16)
                return RemoteVersion(
                    String(repeating: "0", count: 12 - digits.utf8.count) + digits + "00000000000000000001")!
            }
            func write(_ key: String, _ offset: Int64, late: Bool) async throws -> RemoteOutcome {
                try await redis.write(
                    RemoteWrite(
                        key: RemoteKey(key: key), version: version(offset),
                        entry: RemoteEntry(payload: Data("v".utf8), record: Data("r".utf8), checksum: 7),
                        life: .init(remaining: 60_000, keptStale: 0, age: 0), isLate: late))
            }
            #expect(try await write("k", 10, late: false) == .done)
            try server.command("CONFIG", "SET", "maxmemory", "1")
            await #expect { try await write("new", 12, late: false) } throws: {
                ($0 as? RemoteTierError)?.code == .full
            }
            #expect(try await redis.remove(RemoteKey(key: "k"), version: version(30)) == .done)
            #expect(try await write("k", 20, late: true) == .superseded(version(30)))
            try await redis.clear(RemoteScope(), version: version(40), isExpiry: false)
            try server.command("CONFIG", "SET", "maxmemory", "0")
            #expect(try await redis.read(question).finding == .removed(version(30)))
            // On its way when everything was cleared, and waiting elsewhere.
            #expect(try await write("l", 35, late: false) == .cleared)
            #expect(try await write("l", 36, late: true) == .cleared)
            #expect(try await write("l", 50, late: false) == .done)
        }

        @Test("a server that is emptied begins another epoch, and no machine returns its copy")
        func emptied() async throws {
            let server = try RedisServer()
            let tiers = [await tier(server.port), await tier(server.port)]
            let (one, two) = (try await cache(tiers[0]), try await cache(tiers[1]))
            try await one.setValue("v", forKey: "k")
            await eventually { await two.value(forKey: "k") == "v" }
            try server.command("FLUSHALL")
            await eventually { await two.value(forKey: "k") == nil }
            await eventually { await one.value(forKey: "k") == nil }
        }

        @Test("a full server refuses a value, and loses the old one")
        func full() async throws {
            let server = try RedisServer(["--maxmemory", "3mb", "--maxmemory-policy", "noeviction"])
            let tiers = [await tier(server.port), await tier(server.port)]
            let (one, two) = (try await cache(tiers[0]), try await cache(tiers[1]))
            try await one.setValue("old", forKey: "k")
            await eventually { await two.value(forKey: "k") == "old" }
            let large = String(repeating: "x", count: 500_000)
            for number in 0..<8 { try await one.setValue(large, forKey: "\(number)") }
            try await one.setValue(large, forKey: "k")
            await eventually { await two.value(forKey: "k") != "old" }
            #expect(await one.value(forKey: "k") == large)
            try await one.removeValue(forKey: "0")
            #expect(await two.value(forKey: "0") == nil)
            #expect(one.statistics.remote?.waiting == 0)
        }

        @Test("a server that evicts brings nothing back")
        func evicting() async throws {
            let server = try RedisServer(["--maxmemory", "3mb", "--maxmemory-policy", "allkeys-lru"])
            let tiers = [await tier(server.port), await tier(server.port)]
            let (one, two) = (try await cache(tiers[0]), try await cache(tiers[1]))
            try await one.setValue("old", forKey: "k", tags: ["t"])
            try await one.setValue("old", forKey: "l")
            await eventually { await two.values(forKeys: ["k", "l"]).count == 2 }
            try await one.removeAll(tagged: "t")
            try await one.removeValue(forKey: "l")
            let large = String(repeating: "x", count: 500_000)
            for number in 0..<20 { try await one.setValue(large, forKey: "\(number)") }
            #expect(await two.values(forKeys: ["k", "l"]).isEmpty)
            try await one.setValue("new", forKey: "k", tags: ["t"])
            await eventually { await two.value(forKey: "k") == "new" }
        }

        @Test("a read-only replica answers, and changes wait")
        func replica() async throws {
            let main = try RedisServer()
            let writer = await tier(main.port)
            let one = try await cache(writer)
            try await one.setValue("v", forKey: "k")
            let replica = try RedisServer(["--replicaof", "127.0.0.1", "\(main.port)"])
            let reader = await tier(replica.port)
            let two = try await cache(reader)
            await eventually { await two.value(forKey: "k") == "v" }
            try await two.setValue("w", forKey: "k")
            #expect(await two.value(forKey: "k") == "w")
            #expect(two.statistics.remote?.waiting == 1)
            try await one.setValue("x", forKey: "other")
            await eventually { await two.value(forKey: "other") == "x" }
        }

        @Test("one fetch for a key on two machines, with a lease")
        func lease() async throws {
            let server = try RedisServer()
            let source = TestSource<String>()
            var caches: [Cache<String>] = []
            for tier in [await tier(server.port), await tier(server.port)] {
                caches.append(try await cache(tier) { $0.remoteTierPolicy.fetchLease = .seconds(600) })
            }
            let (one, two) = (caches[0], caches[1])
            async let first = one.value(forKey: "k") { try await source.fetch() }
            await source.waitForRequests()
            async let second = two.value(forKey: "k") { try await source.fetch() }
            source.succeed(with: "v")
            #expect(try await [first, second] == ["v", "v"])
            #expect(source.requestCount == 1)
        }

        @Test("user, password, database and TLS")
        func access() async throws {
            let server = try RedisServer(["--requirepass", "secret"])
            let redis = await tier(server.port) {
                $0.password = "secret"
                $0.database = 3
            }
            let named = await tier(server.port) {
                $0.username = "default"
                $0.password = "secret"
                $0.database = 3
            }
            let (one, two) = (try await cache(redis), try await cache(named))
            try await one.setValue("v", forKey: "k")
            await eventually { await two.value(forKey: "k") == "v" }
            let stranger = RedisTier(configuration: .init(port: server.port))
            await eventually { stranger.reason.contains("NOAUTH") }
            let secure = RedisTier(configuration: .init(port: server.port, usesTLS: true))
            await eventually { secure.reason != "not connected yet" }
            #expect(!secure.isConnected)
        }
    }

    extension RedisTier {
        var isConnected: Bool {
            if case .connected = state { return true }
            return false
        }

        var reason: String {
            if case .disconnected(let reason) = state { return reason }
            return ""
        }
    }
#endif
