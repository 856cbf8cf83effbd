#if Redis
    import Foundation
    import Larder
    import LarderRedis
    import LarderTestSupport
    import Testing

    /// Each test has a server of its own. Waiting ends when something has happened, never by time alone.
    @Suite("The memory of a Redis", .serialized, .timeLimit(.minutes(10)))
    struct RedisMemoryTests {
        private let server: RedisServer
        private let redis: RedisTier
        private let key = RemoteKey(key: "k")
        private let time: Int64

        init() async throws {
            server = try RedisServer(["--maxmemory-policy", "noeviction"])
            redis = RedisTier(configuration: .init(port: server.port, prefix: "t"))
            let tier = redis
            await eventually { tier.isConnected }
            // After the beginning of the epoch, before which the server remembers nothing.
            time = Int64(Date().timeIntervalSince1970 * 1000)
        }

        private func version(_ offset: Int64) -> RemoteVersion {
            let digits = String(time + offset, radix: 16)
            return RemoteVersion(
                String(repeating: "0", count: 12 - digits.utf8.count) + digits + "00000000000000000001")!
        }

        private func write(
            _ offset: Int64, life: Int64, kept: Int64 = 0, late: Bool = false, key name: String = "k"
        ) async throws -> RemoteOutcome {
            try await redis.write(request(offset, life: life, kept: kept, late: late, key: name))
        }

        private func request(
            _ offset: Int64, life: Int64, kept: Int64 = 0, late: Bool = false, key name: String = "k"
        ) -> RemoteWrite {
            RemoteWrite(
                key: RemoteKey(key: name), version: version(offset),
                entry: RemoteEntry(payload: Data("v".utf8), record: Data("r".utf8), checksum: 7),
                life: .init(remaining: life, keptStale: kept, age: 0), isLate: late)
        }

        private func read(known offset: Int64? = nil) async throws -> RemoteReading {
            try await redis.read(RemoteRead(key: key, known: offset.map(version), sizeLimit: 100))
        }

        @Test("a value that has expired is still newer than copies and late writes with lower versions")
        func expired() async throws {
            #expect(try await write(20, life: 30) == .done)
            try await eventually { try await read().finding == .missing }
            let reading = try await read(known: 10)
            #expect(reading.finding == .removed(version(20)))
            #expect(redis.state == .connected(epoch: try #require(reading.epoch)))
            #expect(try await read(known: 20).finding == .missing)
            #expect(try await write(10, life: 60_000, late: true) == .cleared)
            #expect(try await read().finding == .missing)
            #expect(try await write(30, life: 60_000, late: true) == .done)
            #expect(try await read(known: 30).epoch == nil)
        }

        @Test("any number of other keys with short lives stop no late write")
        func othersExpired() async throws {
            // They know the generation of the namespace.
            #expect(try await write(1, life: 60_000, key: "first") == .done)
            for start in stride(from: 0, to: 10_000, by: 500) {
                try await withThrowingTaskGroup(of: RemoteOutcome.self) { group in
                    for number in start..<start + 500 {
                        let write = request(20, life: 60_000, key: "other \(number)")
                        group.addTask { [redis] in try await redis.write(write) }
                    }
                    for try await outcome in group { #expect(outcome == .done) }
                }
            }
            for number in 0..<20 {
                #expect(try await write(10, life: 60_000, late: true, key: "late \(number)") == .done)
            }
        }

        @Test("the versions of values that end are forgotten together, and are then known to be no higher than one")
        func forgottenEnds() async throws {
            func fill() throws {
                let script = "for i = redis.call('HLEN', KEYS[1]), 100000 do redis.call('HSET', KEYS[1], i, '') end"
                try server.command("EVAL", script, "1", "t:larder1:h")
            }
            #expect(try await write(20, life: 1, key: "a") == .done)
            try fill()
            #expect(try await write(40, life: 1, key: "b") == .done)
            #expect(try await write(10, life: 60_000, late: true, key: "a") == .cleared)
            #expect(try await write(10, life: 60_000, late: true, key: "c") == .done)
            try fill()
            #expect(try await write(60, life: 1, key: "d") == .done)
            for name in ["a", "e"] { #expect(try await write(15, life: 60_000, late: true, key: name) == .cleared) }
            #expect(try await write(30, life: 60_000, late: true, key: "b") == .cleared)
            #expect(try await write(30, life: 60_000, late: true, key: "a") == .done)
            #expect(try await write(30, life: 60_000, late: true, key: "e") == .done)
        }

        /// Lets the server evict what has an end, when its clock is past the versions so far: it forgets these then.
        private func evict() async throws {
            let last = Date()
            await eventually { Date().timeIntervalSince(last) > 0.05 }
            try server.command("SETEX", "x", "100", "x")
            try server.command("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
            try server.command("CONFIG", "SET", "maxmemory", "1")
            try server.command("SETEX", "y", "100", "y")
            try server.command("CONFIG", "SET", "maxmemory", "0")
        }

        @Test("a clear that arrives late does not hide that a later one was evicted")
        func lateClear() async throws {
            try await redis.clear(RemoteScope(), version: version(40), isExpiry: false)
            try await evict()
            try await redis.clear(RemoteScope(), version: version(20), isExpiry: false)
            #expect(try await write(30, life: 60_000, late: true) == .cleared)
        }

        @Test("a late write is taken if nothing was evicted since, however much before")
        func lateAfterEviction() async throws {
            try await evict()
            // The next connection notices it.
            let other = RedisTier(configuration: .init(port: server.port, prefix: "t"))
            await eventually { other.isConnected }
            let later = Int64(Date().timeIntervalSince1970 * 1000) - time + 2
            #expect(try await write(1, life: 60_000, late: true) == .cleared)
            #expect(try await write(later, life: 60_000, late: true) == .done)
            try server.command("DEL", "t:larder1:k:0:k")
            try await evict()
            #expect(try await write(later + 1, life: 60_000, late: true) == .cleared)
        }

        @Test("a tombstone answers with the epoch, where the copy is the one that it belongs to")
        func ownTombstone() async throws {
            #expect(try await redis.remove(key, version: version(10)) == .done)
            let reading = try await read(known: 10)
            #expect(reading.finding == .removed(version(10)) && reading.scopes == .unknown)
            #expect(redis.state == .connected(epoch: try #require(reading.epoch)))
            try await redis.clear(RemoteScope(), version: version(20), isExpiry: false)
            #expect(try await read(known: 10).scopes == .cleared)
            #expect(try await read(known: 30).scopes == .current)
            #expect(try await read().scopes == .unknown)
        }

        @Test("a value that is longer than the longest reply is not asked for, and costs no connection")
        func longReply() async throws {
            var configuration = RedisTier.Configuration(port: server.port, prefix: "t")
            configuration.replyLimit = 400_000
            let reader = RedisTier(configuration: configuration)
            await eventually { reader.isConnected }
            let entry = RemoteEntry(payload: Data(count: 500_000), record: Data("r".utf8), checksum: 7)
            let life = RemoteLife(remaining: 60_000, keptStale: 0, age: 0)
            let write = RemoteWrite(key: key, version: version(10), entry: entry, life: life)
            #expect(try await redis.write(write) == .done)
            let reading = try await reader.read(RemoteRead(key: key, sizeLimit: 1 << 20))
            #expect(reading.finding == .removed(version(10)))
        }

        @Test("a full server lets values expire")
        func expireOnFull() async throws {
            #expect(try await write(10, life: 60_000, kept: 60_000) == .done)
            try server.command("CONFIG", "SET", "maxmemory", "1")
            #expect(try await redis.expire(key, version: version(20)) == .done)
            guard case .value(_, _, let life) = try await read().finding else { throw CancellationError() }
            #expect(try #require(life.remaining) <= 0)
        }

        @Test("a life of millions of years is sent as one of thousands")
        func longLife() async throws {
            #expect(try await write(10, life: .max / 2) == .done)
            guard case .value(_, _, let life) = try await read().finding else { throw CancellationError() }
            #expect(try #require(life.remaining) > 300_000_000_000_000)
        }
    }
#endif
