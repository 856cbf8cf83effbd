#if Redis
    import Foundation
    import Larder
    import LarderRedis

    /// The database of the shop, which is slow.
    actor Database {
        private var current = 350
        private(set) var reads = 0

        func price(_ id: String) async throws -> Int {
            reads += 1
            try await Task.sleep(for: .milliseconds(50))
            return current
        }

        func setPrice(_ price: Int) {
            current = price
        }
    }

    /// One of the machines that serve the shop, with a directory of its own.
    nonisolated struct Server: Sendable {
        let prices: Cache<Int>
        let database: Database

        init(directory: URL, redis: RedisTier, database: Database) throws {
            var settings = Cache<Int>.Configuration(remoteTier: redis)
            settings.remoteTierPolicy.name = "prices"
            settings.remoteTierPolicy.fetchLease = .seconds(5)
            prices = try Cache(directory: directory, configuration: settings)
            self.database = database
        }

        func price(_ id: String) async throws -> Lookup<Int> {
            try await prices.lookup(forKey: id, ttl: .hours(1), tags: ["product"]) { try await database.price(id) }
        }
    }

    /// Two servers and one Redis, whose port or socket is the argument: one server fetches the price of a product page,
    /// and the other finds it; one changes the price, and the other shows it at once.
    @main
    struct SharedCache {
        static func main() async throws {
            let server = CommandLine.arguments.dropFirst().first ?? "6379"
            let home = FileManager.default.temporaryDirectory.appendingPathComponent("SharedCache-\(UUID())")
            defer { try? FileManager.default.removeItem(at: home) }
            let database = Database()
            // A connection each, as on two machines.
            var settings = RedisTier.Configuration(prefix: home.lastPathComponent)
            if let port = Int(server) { settings.port = port } else { settings.socketPath = server }
            let redis = [RedisTier(configuration: settings), RedisTier(configuration: settings)]
            for redis in redis {
                while case .disconnected = redis.state { try await Task.sleep(for: .milliseconds(10)) }
            }
            let one = try Server(directory: home.appendingPathComponent("1"), redis: redis[0], database: database)
            let two = try Server(directory: home.appendingPathComponent("2"), redis: redis[1], database: database)
            async let first = one.price("bread")
            async let second = two.price("bread")
            print("prices:", try await [first.value, second.value])
            print("reads of the database:", await database.reads)
            await database.setPrice(400)
            try await one.prices.removeValue(forKey: "bread")
            while try await two.price("bread").value != 400 {}
            let again = try await one.price("bread")
            print("after the change: \(again.value) from \(again.source)")
            print("reads of the database:", await database.reads)
            for server in [one, two] { try await server.prices.close() }
        }
    }
#else
    /// Needs the trait `Redis`.
    @main
    struct SharedCache {
        static func main() {
            print("Run it with a Redis: swift run --traits Redis SharedCache")
        }
    }
#endif
