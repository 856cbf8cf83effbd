#if Redis
    import Foundation
    import Larder
    import LarderRedis

    /// A remote tier on a Redis of the benchmark's own, beside the bare commands over hiredis on the same server.
    extension Scenario {
        static var redis: [Scenario] {
            guard RedisServer.program != nil else {
                try? FileHandle.standardError.write(
                    contentsOf: Data(
                        "larder-bench: no redis-server, so the rows of the remote tier are left out\n".utf8))
                return []
            }
            return [hit, read, set, invalidation, sharedProcesses]
        }

        private static let size = 1 << 10
        private static let count = 500
        private static var bytes: [UInt8] { Content.bytes(size) }

        private static func get(_ key: String) -> [[UInt8]] { [Array("GET".utf8), Array(key.utf8)] }
        private static func set(_ key: String, _ value: [UInt8]) -> [[UInt8]] {
            [Array("SET".utf8), Array(key.utf8), value]
        }

        /// A value that another machine has stored, read for the first time: the question, and the copy on disk.
        private static var hit: Scenario {
            Scenario(name: "remote tier hit", size: size, unit: .us, floor: "a bare GET", hasWakes: true) { folder in
                let (server, bare) = (try RedisServer(folder), try BareRedis(folder))
                let (one, two) = (try await Machine(folder, "one"), try await Machine(folder, "two"))
                bare.run((0..<count).map { set(Content.key($0), bytes) })
                return Run(
                    round: { round in
                        var samples = (own: Samples(), floor: Samples())
                        let keys = (0..<count).map { Content.key(round * count + $0) }
                        try await one.cache.setValues(
                            Dictionary(uniqueKeysWithValues: keys.map { ($0, Data(bytes)) }))
                        try await one.sent()
                        for (number, key) in keys.enumerated() {
                            try await timing(&samples.own) {
                                guard await two.cache.value(forKey: key) != nil else {
                                    throw BenchFailure("\(key) is missing")
                                }
                            }
                            timing(&samples.floor) { precondition(bare.run([get(Content.key(number))]) == size) }
                        }
                        return samples
                    }, close: { try await close([one, two], server) })
            }
        }

        /// The question alone.
        private static var read: Scenario {
            Scenario(name: "remote tier read", size: size, unit: .us, floor: "a bare GET", hasWakes: true) { folder in
                let (server, bare) = (try RedisServer(folder), try BareRedis(folder))
                let one = try await Machine(folder, "one")
                let keys = (0..<count).map(Content.key)
                bare.run(keys.map { set($0, bytes) })
                try await one.cache.setValues(Dictionary(uniqueKeysWithValues: keys.map { ($0, Data(bytes)) }))
                try await one.sent()
                return Run(
                    round: { _ in
                        var samples = (own: Samples(), floor: Samples())
                        for key in keys {
                            let question = RemoteRead(key: RemoteKey(key: key), sizeLimit: 1 << 20)
                            try await timing(&samples.own) {
                                guard case .value = try await one.tier.read(question).finding else {
                                    throw BenchFailure("\(key) is missing")
                                }
                            }
                            timing(&samples.floor) { precondition(bare.run([get(key)]) == size) }
                        }
                        return samples
                    }, close: { try await close([one], server) })
            }
        }

        /// A hundred values in one call, which returns when the server has them; the bare commands are pipelined.
        private static var set: Scenario {
            let batch = 100
            return Scenario(
                name: "remote tier set, 100 at once", size: size, unit: .us, floor: "a bare pipelined SET",
                hasWakes: true
            ) { folder in
                let (server, bare) = (try RedisServer(folder), try BareRedis(folder))
                let one = try await Machine(folder, "one")
                let values = Dictionary(uniqueKeysWithValues: (0..<batch).map { (Content.key($0), Data(bytes)) })
                let commands = values.keys.map { set("bare" + $0, bytes) }
                return Run(
                    round: { _ in
                        var samples = (own: Samples(), floor: Samples())
                        for _ in 0..<20 {
                            try await timing(&samples.own, batch: batch) {
                                try await one.cache.setValues(values)
                                try await one.sent()
                            }
                            timing(&samples.floor, batch: batch) { _ = bare.run(commands) }
                        }
                        return samples
                    }, close: { try await close([one], server) })
            }
        }

        /// From the beginning of a set to the moment at which another machine no longer has the old value in memory.
        private static var invalidation: Scenario {
            Scenario(
                name: "remote tier invalidation", size: size, unit: .us, floor: "until the set returns", hasWakes: true
            ) { folder in
                let (server, bare) = (try RedisServer(folder), try BareRedis(folder))
                let (one, two) = (try await Machine(folder, "one"), try await Machine(folder, "two"))
                let (key, value) = ("k", Data(bytes))
                guard let memory = two.cache.memory else { throw BenchFailure("there is no memory tier") }
                return Run(
                    round: { _ in
                        var samples = (own: Samples(), floor: Samples())
                        for _ in 0..<count {
                            try await one.cache.setValue(value, forKey: key)
                            while memory.value(forKey: key) == nil { _ = await two.cache.value(forKey: key) }
                            try await timing(&samples.own) {
                                try await timing(&samples.floor) {
                                    try await one.cache.setValue(value, forKey: key)
                                }
                                while memory.value(forKey: key) != nil {}
                            }
                        }
                        return samples
                    },
                    close: {
                        withExtendedLifetime(bare) {}
                        try await close([one, two], server)
                    })
            }
        }

        /// Half sets, half fetches of 1 KiB on a thousand shared keys, by four processes with a directory each: the
        /// time for each of their operations together.
        private static var sharedProcesses: Scenario {
            let (processes, operations) = (4, 8_000)
            return Scenario(name: "remote tier processes, \(processes)", unit: .us, floor: "", hasWakes: true) {
                folder in
                let (server, bare) = (try RedisServer(folder), try BareRedis(folder))
                let peers = try (0..<processes).map { number in
                    try Peer(.redis, folder.url.appendingPathComponent("machine\(number)", isDirectory: true))
                }
                try peers[0].run(.fill)
                return Run(
                    round: { _ in
                        var samples = Samples()
                        try timing(&samples, batch: operations) {
                            for (number, peer) in peers.enumerated() {
                                try peer.begin(.mix(process: number, pairs: operations / 2 / processes))
                            }
                            for peer in peers { try peer.awaitAnswer() }
                        }
                        return (samples, Samples())
                    },
                    close: {
                        withExtendedLifetime(bare) {}
                        for peer in peers { try peer.close() }
                        try server.close()
                    })
            }
        }

        private static func close(_ machines: [Machine], _ server: RedisServer) async throws {
            for machine in machines { try await machine.cache.close() }
            try server.close()
        }
    }

    /// A cache with a directory of its own, and a connection.
    struct Machine: Sendable {
        let tier: RedisTier
        let cache: Cache<Data>

        /// Returns once the cache has heard of the server.
        init(_ folder: Folder, _ name: String) async throws {
            try await self.init(folder.url.appendingPathComponent(name, isDirectory: true))
        }

        /// `directory`: in the folder of a scenario.
        init(_ directory: URL) async throws {
            let socket = RedisServer.socket(directory.deletingLastPathComponent())
            var settings = RedisTier.Configuration()
            settings.socketPath = socket
            tier = RedisTier(configuration: settings)
            var configuration = Cache<Data>.Configuration(remoteTier: tier)
            configuration.remoteTierPolicy.timeout = .seconds(10)
            cache = try Cache(directory: directory, configuration: configuration)
            while cache.statistics.remote?.misses == 0 {
                _ = await cache.value(forKey: "probe")
                try await Task.sleep(for: .milliseconds(1))
            }
        }

        /// Returns when the server has everything.
        func sent() async throws {
            while cache.statistics.remote?.waiting != 0 { await Task.yield() }
        }
    }

    /// A process that stores and fetches through a remote tier. It follows the orders of a `Peer`.
    enum RedisWorker {
        static func run(in directory: URL) async throws {
            let machine = try await Machine(directory)
            let data = Data(Content.bytes(1 << 10))
            let keys = (0..<Order.keys).map(Content.key)
            let orders = Orders()
            Orders.answer()
            while true {
                switch orders.next() {
                case .fill: for key in keys { try await machine.cache.setValue(data, forKey: key) }
                case .mix(let process, let pairs):
                    for number in 0..<pairs {
                        let own = keys[(number * 7919 + process * 131) % keys.count]
                        try await machine.cache.setValue(data, forKey: own)
                        let other = keys[(number * 6101 + process * 257) % keys.count]
                        _ = try await machine.cache.value(forKey: other) { data }
                    }
                case .close: return try await machine.cache.close()
                case .store, .keepStoring, .pause: throw BenchFailure("an order for other workers")
                }
                Orders.answer()
            }
        }
    }
#else
    import Foundation

    extension Scenario {
        static var redis: [Scenario] { [] }
    }

    enum RedisWorker {
        static func run(in directory: URL) async throws { throw BenchFailure("built without the trait Redis") }
    }
#endif
