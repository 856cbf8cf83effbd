import Foundation
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

#if canImport(CryptoKit)
    import CryptoKit
#endif

extension DocumentationTests.User: Equatable {
    init(id: String = "42") {
        self.init(id: id, name: "Ann")
    }
}

/// Of SeveralMachines.
nonisolated struct ShardedTier: RemoteTier {
    let shards: [any RemoteTier]

    private func number(_ key: RemoteKey) -> Int {
        // The same on every machine, unlike `hashValue`.
        let sum = key.key.utf8.reduce(UInt64(14_695_981_039_346_656_037)) { ($0 ^ UInt64($1)) &* 1_099_511_628_211 }
        return Int(sum % UInt64(shards.count))
    }

    private func shard(_ key: RemoteKey) -> any RemoteTier { shards[number(key)] }

    /// The epochs of all shards as one: of shard `number` the one with which it has just answered.
    private func epoch(_ answer: String? = nil, of number: Int? = nil) -> String {
        let epochs = shards.indices.map { index in
            if index == number, let answer { return answer }
            if case .connected(let epoch) = shards[index].state { return epoch }
            return ""
        }
        return epochs.joined(separator: " ")
    }

    var state: RemoteTierState {
        for shard in shards { if case .disconnected = shard.state { return shard.state } }
        return .connected(epoch: epoch())
    }

    func read(_ request: RemoteRead) async throws -> RemoteReading {
        let number = number(request.key)
        var reading = try await shards[number].read(request)
        reading.epoch = reading.epoch.map { epoch($0, of: number) }
        return reading
    }
    func write(_ write: RemoteWrite) async throws -> RemoteOutcome { try await shard(write.key).write(write) }
    func renew(_ write: RemoteWrite) async throws -> RemoteOutcome { try await shard(write.key).renew(write) }
    func expire(_ key: RemoteKey, version: RemoteVersion) async throws -> RemoteOutcome {
        try await shard(key).expire(key, version: version)
    }
    func remove(_ key: RemoteKey, version: RemoteVersion) async throws -> RemoteOutcome {
        try await shard(key).remove(key, version: version)
    }
    func clear(_ scope: RemoteScope, version: RemoteVersion, isExpiry: Bool) async throws {
        for shard in shards { try await shard.clear(scope, version: version, isExpiry: isExpiry) }
    }
    func lease(_ key: RemoteKey, holder: String, for duration: Duration) async throws -> Bool {
        try await shard(key).lease(key, holder: holder, for: duration)
    }
    func endLease(_ key: RemoteKey, holder: String) async throws {
        try await shard(key).endLease(key, holder: holder)
    }
    func observe(as node: String, _ observer: @escaping @Sendable (RemoteNotice) -> Void) -> @Sendable () -> Void {
        let ends = shards.map { shard in
            shard.observe(as: node) { notice in
                // Each connection concerns all: the epoch is that of all shards.
                guard case .connected(_, let time) = notice else { return observer(notice) }
                if case .connected(let epoch) = state { observer(.connected(epoch: epoch, time: time)) }
            }
        }
        return { for end in ends { end() } }
    }
}

/// Runs every Swift snippet of README and articles; `.ci/snippets` compiles them as in a package and as in an app.
// One after the other: there is one shared cache.
@Suite("The documentation is true", .serialized, .ownCaches)
struct DocumentationTests {
    nonisolated struct User: Codable, Sendable {
        var id: String
        var name: String
    }

    private struct Order: Codable, Equatable {
        var articles: [String]
    }

    private struct Point: Equatable {
        var x: Double
        var y: Double
    }

    private struct DecodingFailed: Error {}

    /// A server that the fetching snippets call.
    private struct API: Sendable {
        func user(_ id: String) async throws -> User { User(id: id) }
        func findUser(_ id: String) async throws -> User? { nil }
        func users(_ ids: [String]) async throws -> [String: User] {
            Dictionary(uniqueKeysWithValues: ids.map { ($0, User(id: $0)) })
        }
        func prices() async throws -> [String: Double] { ["bread": 3.5] }
        func order(_ id: String) async throws -> Order { Order(articles: [id]) }
    }

    private struct Response: Sendable {
        var status: Int
        var body: Data
        var etag: String
    }

    @Test("the adapter for several servers of SeveralMachines is a remote tier")
    func shardedTier() async throws {
        let worlds = [TestWorld(), TestWorld()]
        let servers = worlds.map { TestRemoteServer(world: $0) }
        let caches: [Cache<String>] = try worlds.map { world in
            let tier = ShardedTier(shards: servers.map { $0.connection() })
            return try world.cache(configuration: .init(remoteTier: tier))
        }
        let values = Dictionary(uniqueKeysWithValues: (0..<20).map { ("\($0)", "v\($0)") })
        try await caches[0].setValues(values, tags: ["t"])
        #expect(await caches[1].values(forKeys: values.keys) == values)
        #expect(servers.allSatisfy { !$0.keys.isEmpty })
        // Each server remembers what it has removed and cleared, so what it lacks is valid until it evicts something.
        for server in servers {
            for key in server.keys { server.delete(key) }
            server.disconnect()
            server.reconnect()
        }
        #expect(await caches[1].values(forKeys: values.keys) == values)
        for server in servers { server.disconnect() }
        servers[0].evict("unrelated")
        for server in servers { server.reconnect() }
        #expect(await caches[1].values(forKeys: values.keys).isEmpty)
        try await caches[0].setValues(values, tags: ["t"])
        try await caches[1].removeAll(tagged: "t")
        #expect(await caches[0].values(forKeys: values.keys).isEmpty)
    }

    @Test("there is one shared cache, which reopens once closed")
    func sharedCache() throws {
        let cache = try DiskCache.shared
        #expect(try cache === DiskCache.shared)
        #expect(cache.directory.lastPathComponent == "Larder")
        let key = "test \(UUID().uuidString)"
        try cache.setString("v", forKey: key)
        try cache.close()
        let again = try DiskCache.shared
        #expect(again !== cache && again.string(forKey: key) == "v")
        try again.removeValue(forKey: key)
        try again.close()
    }

    @Test("the first lines of the README do what they say, in two tiers")
    func twoTiers() async throws {
        let id = "42"
        let api = API()
        let users = try Cache<User>(name: "users")  // <Caches>/<program>/users; JSON on disk
        let user = try await users.value(forKey: id, ttl: .hours(1)) { try await api.user(id) }

        try await users.setValue(user, forKey: id, ttl: .hours(1))
        let again = await users.value(forKey: id)  // nil for a miss; no suspension for a hit in memory
        #expect(again == user)
        try await users.removeAll()
        try await users.close()
    }

    @Test("the overview of the articles does what it says, in two tiers")
    func twoTiersOverview() async throws {
        let id = "42"
        let api = API()
        let users = try Cache<User>(name: "users")
        let user = try await users.value(forKey: id, ttl: .hours(1)) { try await api.user(id) }
        #expect(user == User())
        try await users.setValue(user, forKey: id, ttl: .hours(1))
        let again = await users.value(forKey: id)
        #expect(again == user)
        try await users.removeAll()
        try await users.close()
    }

    @Test("fetching works as the README says")
    func fetchingInShort() async throws {
        let home = try TemporaryDirectory()
        let disk = try DiskCache(directory: home.appending("cache"))
        let users = Cache<User>(disk: disk, namespace: "users")
        let lists = Cache<[String: Double]>(disk: disk, namespace: "lists")
        let orders = Cache<Order>(disk: disk, namespace: "orders")
        let (api, ids) = (API(), ["1", "2"])
        let policy = FetchPolicy.staleWhileRevalidate(for: .minutes(5)).staleIfError(for: .days(1))
        let prices = try await lists.value(forKey: "food", ttl: .minutes(1), policy: policy) { try await api.prices() }
        let known = try await users.values(forKeys: ids, ttl: .hours(1)) { missing in try await api.users(missing) }
        let order = try await orders.value(forKey: "17", tags: ["customer 42", "open"]) { try await api.order("17") }
        try await orders.expireAll(tagged: "open")  // outdated, but better than none in an outage
        try await orders.removeAll(tagged: "customer 42")  // at once, whatever their number
        #expect(prices.count == 1 && known.count == 2 && order.articles == ["17"])
        #expect(await !orders.hasValue(forKey: "17"))
    }

    @Test("fetching works as the article says")
    func fetching() async throws {
        let home = try TemporaryDirectory()
        let disk = try DiskCache(directory: home.appending("cache"))
        let users = Cache<User>(disk: disk, namespace: "users")
        let lists = Cache<[String: Double]>(disk: disk, namespace: "lists")
        let pages = Cache<Data>(disk: disk, namespace: "pages")
        let orders = Cache<Order>(disk: disk, namespace: "orders")
        let counters = Cache<Int>(disk: disk, namespace: "counters")
        let (api, id, ids, url) = (API(), "42", ["1", "2"], "https://example.com/")
        @Sendable func get(_ url: String, ifNoneMatch etag: String?) async throws -> Response {
            Response(status: etag == nil ? 200 : 304, body: Data("page".utf8), etag: "x")
        }
        let policy = FetchPolicy.staleWhileRevalidate(for: .minutes(5)).staleIfError(for: .days(1))
        let prices = try await lists.value(forKey: "food", ttl: .minutes(1), policy: policy) { try await api.prices() }

        let patient = FetchPolicy.staleIfError(for: .days(7))
            .softTimeout(.milliseconds(300)).hardTimeout(.seconds(20)).retryThrottle(.seconds(10))
            .eagerRefresh(atFraction: 0.8).jitter(0.1)
        let samePrices = try await lists.value(forKey: "food", policy: patient) { try await api.prices() }
        #expect(prices == samePrices)

        func asked() async throws {
            let page = try await pages.value(forKey: url, ttl: .minutes(5)) { cached in
                let response = try await get(url, ifNoneMatch: cached?.metadata["etag"])
                if response.status == 304 { return .notModified }
                return .value(response.body, metadata: ["etag": response.etag])
            }
            #expect(page == Data("page".utf8))
        }
        try await asked()

        func onTerms() async throws {
            let body = try await pages.value(forKey: url) {
                let response = try await get(url, ifNoneMatch: nil)
                return response.status == 200 ? .value(response.body, ttl: .hours(1)) : .doNotStore(response.body)
            }
            #expect(body == Data("page".utf8))
        }
        try await onTerms()

        func expiring() async throws {
            try await users.expireValue(forKey: id)
            try await orders.expireAll(tagged: "customer 42")
        }
        try await expiring()

        func none() async throws {
            let user = try await users.optionalValue(forKey: id, ttl: .hours(1), absentTTL: .minutes(1)) {
                try await api.findUser(id)  // nil: there is none
            }
            #expect(user == nil)
        }
        try await none()

        let known = try await users.values(forKeys: ids, ttl: .hours(1)) { missing in try await api.users(missing) }
        #expect(known.count == 2)

        let prefetching = users.prefetch(ids, ttl: .hours(1)) { id in try await api.user(id) }
        prefetching.cancel()  // the user has scrolled on
        await prefetching.value

        let count = try await counters.modifyValue(forKey: "visits") { count in
            count = (count ?? 0) + 1
            return count
        }
        #expect(count == 1)

        let order = try await orders.value(forKey: "17", tags: ["customer 42", "open"]) { try await api.order("17") }
        try await orders.removeAll(tagged: "customer 42")  // at once, whatever their number
        #expect(order.articles == ["17"])
        #expect(await !orders.hasValue(forKey: "17"))

        func ending() async throws {
            let policy = FetchPolicy.staleWhileRevalidate(for: .days(1))
            let stale = try await users.value(forKey: id, policy: policy) { try await api.user(id) }
            await users.waitForFetches()  // the new one is on disk
            try await users.close()
            #expect(stale.id == id)
        }
        try await ending()
    }

    @Test("namespaces and a cache in memory do what the README says")
    func namespaces() async throws {
        let disk = try DiskCache(name: "shop")  // several types share a directory, in namespaces
        let users = Cache<User>(disk: disk, namespace: "users")
        let orders = Cache<Order>(
            disk: disk, namespace: "orders", configuration: .init(memory: .init(costLimit: 50 << 20)))
        if let found = await orders.lookup(forKey: "17") { print(found.value, found.source, found.age) }
        try await orders.removeAll()  // at once, whatever their number; the users stay
        #expect(await users.keys() == [])
        #expect(orders.memory?.count == 0)
        try disk.close()

        let page = Data("page".utf8)
        let url = URL(fileURLWithPath: "/page")
        let pages = MemoryCache<URL, Data>(configuration: .init(costLimit: 10 << 20))
        pages.setValue(page, forKey: url, ttl: .minutes(5), cost: page.count)
        #expect(pages[url] == page)
    }

    @Test("typed values work as the article says")
    func typedValues() async throws {
        let user = User()
        let home = try TemporaryDirectory()
        let folder = home.appending("cache")
        func single() async throws {
            let users = try Cache<User>(name: "users")  // <Caches>/<program>/users; JSON, one day
            try await users.setValue(user, forKey: "42", ttl: .hours(1))  // on disk when it returns
            let again = await users.value(forKey: "42")  // nil for a miss
            #expect(again == user)

            if let found = await users.lookup(forKey: "42") {
                print(found.value, found.source, found.age, found.expiresAt ?? "never")
            }
            print(users.statistics.memoryHits, users.statistics.diskHits, users.statistics.misses)
            #expect(users.statistics.memoryHits == 2)
            try await users.removeAll()
            let reader = Task {
                for await event in users.events where event.kind == .evicted {
                    print(event.keys, event.limit?.description ?? "")
                }
            }
            let watcher = Task {
                for await user in users.updates(forKey: "42") {
                    print(user?.name ?? "nobody")
                }
            }
            let api = API()
            let policy = FetchPolicy.cacheFirst.eagerRefresh(after: .minutes(5))
            let people = LoadingCache(users, ttl: .hours(1), policy: policy) { id in try await api.user(id) }
            let person = try await people.value(forKey: "42")
            try await people.refresh(forKey: "42")
            #expect(person == user)
            try await users.close()
            await reader.value
            await watcher.value
        }
        try await single()

        let (tokens, token) = (
            Cache<String>(disk: try DiskCache(directory: home.appending("tokens")), namespace: ""), "t"
        )
        try await tokens.setValue(token, forKey: "session", ttl: .minutes(10), toDisk: false)
        #expect(await tokens.value(forKey: "session") == token)
        #expect(tokens.count == 0)

        let lists = try Cache(directory: folder, coder: Coder<User>.propertyList)
        let points = Coder<Point> { point in
            Data("\(point.x) \(point.y)".utf8)
        } decode: { data in
            let parts = String(decoding: data, as: UTF8.self).split(separator: " ").compactMap { Double($0) }
            guard parts.count == 2 else { throw DecodingFailed() }
            return Point(x: parts[0], y: parts[1])
        }
        try await lists.setValue(user, forKey: "42")
        let other = try Cache(directory: home.appending("points"), coder: points)
        try await other.setValue(Point(x: 1, y: -2.5), forKey: "p")
        other.memory?.trim(toCount: 0)
        let point = await other.value(forKey: "p")
        #expect(point == Point(x: 1, y: -2.5))

        let old = try Cache(name: "people", coder: Coder<String>.json.versioned(2))
        try await old.setValue("Ann", forKey: "42")
        let coder = Coder<User>.json.versioned(
            3,
            migrating: [
                2: { data in User(id: "", name: try JSONDecoder().decode(String.self, from: data)) }
            ])
        let migrated = try Cache(name: "people", coder: coder)
        #expect(await migrated.value(forKey: "42") == User(id: "", name: "Ann"))

        func shared() async throws {
            let disk = try DiskCache(name: "shop")
            let users = Cache<User>(disk: disk, namespace: "users")
            let orders = Cache<Order>(disk: disk, namespace: "orders")
            try await orders.removeAll()  // at once, whatever their number; the users stay
            #expect(users.disk?.directory == disk.directory)
            try disk.close()
        }
        try await shared()
    }

    @Test("memory limits work as the article says")
    func memoryLimits() async throws {
        let home = try TemporaryDirectory()
        let folder = home.appending("cache")
        var configuration = Cache<User>.Configuration()
        configuration.memory?.countLimit = 1_000  // values
        configuration.memory?.costLimit = 50 << 20  // the sum of their costs
        configuration.memory?.entryCostLimit = 5 << 20  // the cost of one
        configuration.memory?.ageLimit = .minutes(10)  // since the last use
        configuration.cost = { user, size in size }  // the default: the bytes on disk
        let users = try Cache<User>(directory: folder, configuration: configuration)
        try await users.setValue(User(), forKey: "42")
        #expect(users.memory?.cost == users.disk?.payloadSize)

        users.memory?.costLimit = 10 << 20
        users.memory?.trim(toCount: 0)  // the disk still has the values
        #expect(users.memory?.count == 0 && users.count == 1)

        let url = URL(fileURLWithPath: "/page")
        let page = Data(count: 1000)
        let pages = MemoryCache<URL, Data>(configuration: .init(costLimit: 10 << 20, cost: \.count))
        pages[url] = page
        pages.setValue(page, forKey: url, ttl: .minutes(5), cost: 2 * page.count)
        pages.trim(toCost: 1 << 20)
        let recent = pages.keysByRecency().prefix(10)  // the most recently used first
        #expect(recent == [url] && pages.cost == 2000)

        let sessions = MemoryCache<String, User>(configuration: .init(defaultTTL: .minutes(30), slidingExpiry: true))
        sessions["42"] = User()
        #expect(sessions["42"] != nil)

        pages.respond(to: .memoryPressure)
        #expect(pages.count == 0)
    }

    #if canImport(CryptoKit)
        @Test("values are encrypted as the article says")
        func encryption() async throws {
            let home = try TemporaryDirectory()
            let folder = home.appending("cache")
            let key = SymmetricKey(size: .bits256)
            let sealed = Coder<User>.json.wrapped { bytes in
                try AES.GCM.seal(bytes, using: key).combined ?? Data()  // not nil with a nonce of the usual length
            } decode: { bytes in
                try AES.GCM.open(AES.GCM.SealedBox(combined: bytes), using: key)
            }
            let users = try Cache(directory: folder, coder: sealed)
            try await users.setValue(User(), forKey: "42")
            users.memory?.trim(toCount: 0)
            let user = await users.value(forKey: "42")
            #expect(user == User())
        }
    #endif

    @Test("a coder around a coder works as the article says")
    func wrapping() throws {
        let compress: @Sendable (Data) throws -> Data = { Data($0.reversed()) }
        let (decompress, seal, open) = (compress, compress, compress)
        let packed = Coder<User>.json.wrapped(encode: compress, decode: decompress).wrapped(encode: seal, decode: open)
        let home = try TemporaryDirectory()
        let cache = try Cache(directory: home.appending("cache"), coder: packed)
        #expect(cache.memory?.count == 0)
        withExtendedLifetime(home) {}
    }

    @Test("the disk tier does what the README says")
    func diskTier() throws {
        let home = try TemporaryDirectory()
        let (folder, film, oldDirectory) = (home.appending("cache"), home.appending("film"), home.url)
        try Data("film".utf8).write(to: film)
        try Data("<plist><dict/></plist>".utf8).write(to: home.appending("EGOCache.plist"))
        let (bytes, etag, midnight) = (Data("bytes".utf8), "\"abc\"", Date(timeIntervalSinceNow: 1000))
        let url = try #require(URL(string: "https://example.com/"))
        let disk = try DiskCache(directory: folder, configuration: .init(defaultTTL: .hours(6), sizeLimit: 500 << 20))
        try disk.setData(bytes, forKey: url.absoluteString, metadata: ["etag": etag])
        let bytesAgain = disk.data(forKey: url.absoluteString)  // nil for a miss, never stale, never damaged
        let version = disk.entry(forKey: url.absoluteString)?.metadata["etag"]
        try disk.setString("hello", forKey: "greeting", ttl: .until(midnight))
        try disk.setTimeToLive(.minutes(5), forKey: "greeting")  // does not rewrite the value
        try disk.copyFile(at: film, forKey: "film")  // cloned where the file system can
        print(try disk.importEGOCache(from: oldDirectory))  // imported and skipped keys, with reasons
        #expect(bytesAgain == bytes && version == etag && disk.count == 3)
    }

    @Test("the overview of the articles does what it says")
    func overview() throws {
        let bytes = Data("bytes".utf8)
        let url = try #require(URL(string: "https://example.com/\(UUID().uuidString)"))
        let disk = try DiskCache(name: "downloads")
        try disk.setData(bytes, forKey: url.absoluteString)
        let again = disk.data(forKey: url.absoluteString)
        #expect(again == bytes)
        try disk.removeValue(forKey: url.absoluteString)
        try disk.close()
    }

    @Test("the ways to open a cache work as the articles say")
    func opening() throws {
        let home = try TemporaryDirectory()
        let folder = home.appending("cache")
        let named = try DiskCache(name: "downloads")  // <Caches>/<program>/downloads
        let placed = try DiskCache(directory: folder)  // created when missing
        let program = try DiskCache.shared  // <Caches>/<program>/Larder
        let users = try Cache<User>(name: "users", configuration: .init(fallsBackToMemory: true))
        #expect(named.directory != placed.directory && placed.directory != program.directory)
        #expect(users.disk != nil)
        try named.close()
    }

    #if FoundationExtras || canImport(Darwin)
        @Test("every kind of value is stored and read as the articles say")
        func kinds() throws {
            let home = try TemporaryDirectory()
            let disk = try DiskCache(directory: home.appending("cache"))
            let film = home.appending("film")
            let target = home.appending("target")
            try Data("film".utf8).write(to: film)
            func store(bytes: Data, user: User) throws {
                try disk.setData(bytes, forKey: "bytes")
                try disk.setString("hello", forKey: "greeting")
                try disk.setValue(user, forKey: "user")  // Codable, as JSON
                try disk.setPropertyList(["a": [1, 2]], forKey: "list")  // binary
                try disk.setArchivedObject(NSUUID(), forKey: "object")  // NSSecureCoding
                try disk.copyFile(at: film, forKey: "film")  // cloned where the disk can
            }
            try store(bytes: Data("bytes".utf8), user: User())

            let bytes = disk.data(forKey: "bytes")
            let greeting = disk.string(forKey: "greeting")
            let user = disk.value(User.self, forKey: "user")
            let list = disk.propertyList(forKey: "list") as? [String: [Int]]
            let object = disk.archivedObject(NSUUID.self, forKey: "object")
            let isExported = try disk.exportFile(forKey: "film", to: target)
            #expect(bytes == Data("bytes".utf8) && greeting == "hello" && user == User() && list == ["a": [1, 2]])
            #expect(object != nil && isExported)
            #expect(try Data(contentsOf: target) == Data("film".utf8))

            let page = Data("page".utf8)
            let etag = "x"
            try disk.setData(page, forKey: "page", ttl: .hours(1), metadata: ["etag": etag])
            let version = disk.entry(forKey: "page")?.metadata["etag"]
            #expect(version == "x")
            do {
                try disk.setData(page, forKey: "page")
            } catch {
                if error.code != .noSpace { throw error }
            }
            var configuration = DiskCache.Configuration()
            configuration.onEvent = { event in print(event.kind, event.keys, event.error?.description ?? "") }
            print(disk.statistics.hits, disk.statistics.evictions.total)
            print(try disk.verify())
            #expect(disk.statistics.hits == 6)
        }
    #endif

    @Test("lives work as the articles say")
    func lives() throws {
        let home = try TemporaryDirectory()
        let disk = try DiskCache(directory: home.appending("cache"))
        let midnight = Date(timeIntervalSinceNow: 1000)
        try disk.setString("v", forKey: "f")
        try disk.setString("v", forKey: "a")  // the configured life: one day
        try disk.setString("v", forKey: "b", ttl: .minutes(10))
        try disk.setString("v", forKey: "c", ttl: .until(midnight))
        try disk.setString("v", forKey: "d", ttl: .forever)
        try disk.setString("v", forKey: "e", ttl: TimeToLive(.seconds(1.5)))
        try disk.setString("v", forKey: "f", ttl: .seconds(0))  // do not keep: removes "f"
        #expect(Set(disk.keys()).isSuperset(of: ["a", "b", "c", "d"]) && !disk.hasValue(forKey: "f"))
        let isThere = try disk.setTimeToLive(.hours(1), forKey: "page")
        #expect(!isThere)
    }

    @Test("limits and trims work as the articles say")
    func limits() throws {
        let home = try TemporaryDirectory()
        let folder = home.appending("cache")
        var configuration = DiskCache.Configuration()
        configuration.countLimit = 10_000  // entries
        configuration.sizeLimit = 500 << 20  // payload bytes
        configuration.ageLimit = .days(30)  // since the last use
        configuration.minimumFreeSpace = 1 << 30  // left on the disk
        let disk = try DiskCache(directory: folder, configuration: configuration)

        disk.setLimits(.init(countLimit: 5_000, sizeLimit: 100 << 20))
        #expect(disk.limits == DiskCache.Limits(countLimit: 5_000, sizeLimit: 100 << 20))

        disk.trim(toCount: 1_000)
        disk.trim(toSize: 100 << 20)
        disk.trim(toAge: .days(7))
        disk.trim(toFreeSpace: 2 << 30)
        #expect(disk.count == 0)
        try disk.close()
        configuration.durability = .powerSafe
        let safe = try DiskCache(directory: folder, configuration: configuration)
        try safe.setString("v", forKey: "k")
        #expect(safe.string(forKey: "k") == "v")
    }

    @Test("an EGOCache directory is moved over as the article says")
    func moving() throws {
        let home = try TemporaryDirectory()
        let oldDirectory = home.url
        let list = try PropertyListSerialization.data(
            fromPropertyList: ["k": Date(timeIntervalSinceNow: 1000)], format: .xml, options: 0)
        try list.write(to: home.appending("EGOCache.plist"))
        try Data("v".utf8).write(to: home.appending("k"))
        let disk = try DiskCache(name: "MyCache")
        let report = try disk.importEGOCache(from: oldDirectory)
        print(report)  // what was imported, what was skipped and why
        #expect(report.imported == ["k"] && disk.string(forKey: "k") == "v")
        try disk.removeAll()
        try disk.close()
    }

    @Test("an operator looks and measures as the article says")
    func operating() throws {
        let disk = try DiskCache(name: "shop")
        for part in disk.namespaces() { print(part) }  // namespace "users": 4000 entries, 812000 bytes, …
        if let entry = disk.entry(forKey: "17") { print(entry) }  // size, dates, tags, metadata
        try disk.setString("v", forKey: "17")
        let before = disk.statistics
        let text = disk.statistics.prometheusText(namespaces: disk.namespaces())
        print(disk.statistics - before)  // 5210 hits, 318 misses, 340 stored
        #expect(text.contains("larder_stores_total 1\n") && (disk.statistics - before).stores == 0)
        #expect(text.contains(#"larder_entries{namespace=""} 1"#))
    }

    private static let package = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: package.appendingPathComponent(path), encoding: .utf8)
    }

    @Test("testing works as the article says")
    func testing() async throws {
        let world = TestWorld()
        let names: Cache<String> = try world.cache()
        try await names.setValue("Ann", forKey: "42", ttl: .minutes(10))
        world.advance(by: .seconds(600))
        #expect(await names.value(forKey: "42") == nil)

        let source = TestSource<String>()
        async let first = names.value(forKey: "42") { try await source.fetch("42") }
        async let second = names.value(forKey: "42") { try await source.fetch("42") }
        await source.waitForRequests()
        source.succeed(with: "Ann")
        let both = try await [first, second]
        #expect(both == ["Ann", "Ann"])
        #expect(source.requestCount == 1)

        let policy = FetchPolicy.staleIfError(for: .hours(1)).softTimeout(.seconds(2))
        source.succeed(with: "Bob")
        _ = try await names.value(forKey: "7", ttl: .minutes(1), policy: policy) { try await source.fetch("7") }
        world.advance(by: .seconds(60))
        async let late = names.value(forKey: "7", policy: policy) { try await source.fetch("7") }
        await source.waitForRequests(3)
        world.advance(by: .seconds(2))
        let name = try await late
        #expect(name == "Bob")

        guard #available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *) else { return }
        let seeded = TestWorld(seed: 42)
        let cities: Cache<String> = try seeded.cache()
        let cityServer = TestSource<String>(answers: ["Ulm", "Bonn"])
        cityServer.fail(with: URLError(.notConnectedToInternet))
        @Sendable func city() async throws -> String {
            try await cities.value(forKey: "1", ttl: .minutes(10), policy: .staleIfError(for: .hours(1))) {
                try await cityServer.fetch("1")
            }
        }
        let fresh = try await seeded.run { try await city() }
        seeded.advance(by: .seconds(600))
        let expired = try await seeded.run { try await city() }
        seeded.advance(by: .seconds(600))
        let down = try await seeded.run { try await city() }
        #expect([fresh, expired, down] == ["Ulm", "Bonn", "Bonn"])
        world.isDiskFull = true
        await #expect(throws: CacheError.self) { try await names.setValue("Eve", forKey: "42") }
        world.isDiskFull = false

        for number in 1... {
            let world = TestWorld()
            let names: Cache<String> = try world.cache()
            world.failCall(number)
            try? await names.setValue("Ann", forKey: "42")
            _ = await names.value(forKey: "42")  // a read never throws
            if world.failedCallCount == 0 { break }
        }

        let before: Cache<String> = try world.cache(name: "names")
        try await before.setValue("Ann", forKey: "42")
        world.kill()
        world.restart()
        let after: Cache<String> = try world.cache(name: "names")
        #expect(await after.value(forKey: "42") == "Ann")
    }

    private func lines(_ text: some StringProtocol) -> [String] {
        text.split(separator: "\n")
            .map { $0.split(separator: " ").joined(separator: " ") }
            .filter { !$0.isEmpty && $0 != "import Larder" }
    }

    private static let articles = [
        "Larder", "GettingStarted", "ChoosingALifetime", "UnderstandingTheDirectory", "SharingADirectory",
        "SurvivingCrashes", "Limits",
        "ComingFromEGOCache", "ComingFromYYCache", "TypedValues", "FetchingThroughTheCache", "MemoryLimits",
        "EncryptingValues", "SmallPrograms", "TestingCode", "Performance", "SeveralMachines",
        "OperatingACache",
    ].map { "Sources/Larder/Larder.docc/\($0).md" }

    @Test("no article is missing here")
    func allArticles() throws {
        let catalog = Self.package.appendingPathComponent("Sources/Larder/Larder.docc")
        let found = try FileManager.default.contentsOfDirectory(atPath: catalog.path).filter { $0.hasSuffix(".md") }
        #expect(Set(found.map { "Sources/Larder/Larder.docc/\($0)" }) == Set(Self.articles))
    }

    @Test("no snippet is missing here", arguments: ["README.md", "CONTRIBUTING.md"] + articles)
    func snippets(path: String) throws {
        let here = lines(try Self.text("Tests/LarderTests/DocumentationTests.swift")).joined(separator: "\n")
        for snippet in try Self.text(path).components(separatedBy: "```swift\n").dropFirst() {
            let code = lines(snippet.components(separatedBy: "```")[0])
            #expect(!code.isEmpty && here.contains(code.joined(separator: "\n")), "\(code.first ?? "")")
        }
    }

    private func testFiles() -> [String: String] {
        let tests = Self.package.appendingPathComponent("Tests/LarderTests")
        let files = FileManager.default.enumerator(atPath: tests.path)?.compactMap { $0 as? String } ?? []
        let pairs = files.filter { $0.hasSuffix("Tests.swift") }.compactMap { file in
            (try? Self.text("Tests/LarderTests/" + file)).map {
                (file.split(separator: "/").last?.dropLast(6).description ?? "", $0)
            }
        }
        return Dictionary(pairs) { first, _ in first }
    }

    @Test("every suite named as proof exists", arguments: ["README.md", "CONTRIBUTING.md"] + articles)
    func proofs(path: String) throws {
        let files = testFiles()
        #expect(files.count > 20)
        for match in try Self.text(path).matches(of: /`(\w+Tests)(?:\/(\w+))?`/) {
            let text = files["\(match.1)"]
            #expect(text != nil, "\(match.1)")
            if let name = match.2 { #expect(text?.contains("func \(name)(") == true, "\(match.0)") }
        }
    }

    @Test("every row of the migration tables names its test", arguments: ["EGO", "YY"])
    func rows(ancestor: String) throws {
        let text = try Self.text("Sources/Larder/Larder.docc/ComingFrom\(ancestor)Cache.md")
        let rows = text.split(separator: "\n").filter { $0.hasPrefix("| ") && !$0.hasSuffix("| Larder | test |") }
        #expect(rows.count > 17)
        for row in rows where !row.contains("not yet") && !row.contains("workflow") {
            #expect(row.contains(/Tests\/\w+`[^|]*\|$/), "\(row)")
        }
    }
}
