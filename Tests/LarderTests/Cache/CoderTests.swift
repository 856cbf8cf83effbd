import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

extension Coder {
    func bytes(of value: Value) throws -> Data { try encode(value).data }
    func value(of bytes: Data) throws -> Value { try decode(bytes, nil) }
}

@Suite("Coders, and bytes of every type")
struct CoderTests {
    /// As a type of another library.
    struct Frame: CacheBytes, Equatable {
        var bytes: [UInt8]

        init(_ bytes: [UInt8]) { self.bytes = bytes }

        init?(cacheBytes: UnsafeRawBufferPointer) {
            if cacheBytes.first == 0 { return nil }
            bytes = Array(cacheBytes)
        }

        func withCacheBytes<Result>(_ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
            try bytes.withUnsafeBytes(body)
        }
    }

    private struct User: Codable, Equatable {
        var name: String
        var joined = Date(timeIntervalSince1970: 1_700_000_000)
    }

    private func value<Value: Sendable>(
        _ key: String, _ coder: Coder<Value>, _ disk: DiskCache, hasMemory: Bool = false
    ) async -> Value? {
        await Cache(disk: disk, namespace: "", coder: coder, configuration: configuration(hasMemory))
            .value(forKey: key)
    }

    private func set<Value: Sendable>(_ value: Value, _ key: String, _ coder: Coder<Value>, _ disk: DiskCache)
        async throws
    {
        try await Cache(disk: disk, namespace: "", coder: coder, configuration: configuration(false))
            .setValue(value, forKey: key)
    }

    private func configuration<Value: Sendable>(_ hasMemory: Bool) -> Cache<Value>.Configuration {
        var configuration = Cache<Value>.Configuration()
        if !hasMemory { configuration.memory = nil }
        return configuration
    }

    private func coding(_ key: String, _ disk: DiskCache) -> String? {
        disk.store.index.entry(disk.key(key))?.coding?.name
    }

    // MARK: Bytes

    private func roundTrip<Bytes: CacheBytes & Equatable>(_ value: Bytes, stored: [UInt8], coding: String?) async throws
    {
        var world = World()
        var disk = try world.open()
        try disk.setBytes(value, forKey: "disk")
        try await set(value, "cache", .bytes, disk)
        for key in ["disk", "cache"] {
            for _ in 0..<2 {
                #expect(disk.data(forKey: key) == Data(stored))
                #expect(disk.bytes(Bytes.self, forKey: key) == value)
                for hasMemory in [true, false] {
                    let cache = Cache<Bytes>(
                        disk: disk, namespace: "", coder: .bytes, configuration: configuration(hasMemory))
                    for _ in 0..<2 { #expect(await cache.value(forKey: key) == value) }
                }
                #expect(self.coding(key, disk) == coding)
                try disk.close()
                world.restart()
                disk = try world.open()
            }
        }
        // Raw data is bytes, too; what was stored as something else is not.
        try disk.setData(Data(stored), forKey: "raw")
        #expect(disk.bytes(Bytes.self, forKey: "raw") == value)
        try await set(7, "json", .json, disk)
        #expect((disk.bytes(Bytes.self, forKey: "json") == nil) == (coding != nil))
        disk.settle()
    }

    @Test("bytes of every type are stored as they are, and come back through every door and tier")
    func bytes() async throws {
        let bytes: [UInt8] = [255, 0, 1, 10]
        try await roundTrip(bytes, stored: bytes, coding: "bytes")
        try await roundTrip(bytes[1...2], stored: [0, 1], coding: "bytes")
        try await roundTrip([UInt8](), stored: [], coding: "bytes")
        try await roundTrip(Data(bytes)[1...], stored: [0, 1, 10], coding: nil)
        try await roundTrip("e\u{301}\0", stored: Array("e\u{301}\0".utf8), coding: "utf8")
        try await roundTrip(Frame(bytes), stored: bytes, coding: "bytes")
        try await roundTrip(
            Frame([UInt8](repeating: 7, count: 100_000)), stored: [UInt8](repeating: 7, count: 100_000), coding: "bytes"
        )
    }

    @Test("an array of bytes is not stored as JSON where no coder is named; an array of other numbers is")
    func standard() async throws {
        let disk = try World().open()
        try disk.setValue([1, 2] as [UInt8], forKey: "disk")
        try await set([1, 2], "cache", Coder<[UInt8]>.standard, disk)
        for key in ["disk", "cache"] {
            #expect(disk.data(forKey: key) == Data([1, 2]) && disk.value([UInt8].self, forKey: key) == [1, 2])
            #expect(await value(key, Coder<[UInt8]>.standard, disk) == [1, 2])
            #expect(disk.bytes(ArraySlice<UInt8>.self, forKey: key) == [1, 2])
            #expect(disk.value([Int].self, forKey: key) == nil && disk.string(forKey: key) == nil)
        }
        try disk.setValue([1, 2] as [UInt16], forKey: "numbers")
        #expect(disk.data(forKey: "numbers") == Data("[1,2]".utf8))
    }

    @Test("an array of bytes that an older version has stored as JSON is a miss, never other bytes")
    func older() async throws {
        let disk = try World().open()
        try disk.set(Data("[1,2]".utf8), as: .json, forKey: "k", ttl: .default, metadata: [:], tags: [])
        #expect(disk.value([UInt8].self, forKey: "k") == nil && disk.bytes([UInt8].self, forKey: "k") == nil)
        #expect(await value("k", Coder<[UInt8]>.standard, disk, hasMemory: true) == nil)
        #expect(disk.value([Int].self, forKey: "k") == [1, 2])
    }

    @Test("bytes that their type refuses are a miss, reported once and kept")
    func refused() async throws {
        let log = EventLog()
        let disk = try World { $0.onEvent = log.note }.open()
        try disk.setData(Data([0, 1]), forKey: "k")
        let cache = Cache<Frame>(disk: disk, namespace: "", coder: .bytes)
        for _ in 0..<2 { #expect(await cache.value(forKey: "k") == nil) }
        #expect(log.events(of: disk).map(\.error?.code) == [.undecodable])
        #expect(disk.bytes(Frame.self, forKey: "k") == nil && disk.hasValue(forKey: "k"))
        try disk.setData(Data([0xFF]), forKey: "k")
        #expect(disk.bytes(String.self, forKey: "k") == nil)
    }

    /// Stores a value on one machine, and reads it on another.
    private func send<Value: Sendable & Equatable>(_ value: Value, _ coder: Coder<Value>, coding: String?) async throws
    {
        let time = TestWorld()
        let server = TestRemoteServer(world: time)
        func cache() throws -> Cache<Value> {
            try TestWorld().cache(coder: coder, configuration: .init(remoteTier: server.connection()))
        }
        let (one, two) = (try cache(), try cache())
        try await one.setValue(value, forKey: "k")
        try await one.flush()
        let found = await two.lookup(forKey: "k")
        #expect(found?.value == value && found?.source == .remote)
        #expect(await two.value(forKey: "k") == value)
        two.memory?.trim(toCount: 0)
        #expect(await two.lookup(forKey: "k")?.source == .disk)
        #expect(self.coding("k", try #require(two.disk)) == coding)
        // Another coder takes the value of the server for none of its own.
        let other = try TestWorld().cache(
            coder: Coder<User>.propertyList, configuration: .init(remoteTier: server.connection()))
        if coding != nil { #expect(await other.value(forKey: "k") == nil) }
    }

    @Test("values of every type and coder come through the remote tier with their form")
    func shared() async throws {
        let bytes: [UInt8] = [255, 0, 1, 10]
        try await send(bytes, .bytes, coding: "bytes")
        try await send(bytes[1...2], .bytes, coding: "bytes")
        try await send(Data(bytes), .bytes, coding: nil)
        try await send("text", .bytes, coding: "utf8")
        try await send(Frame(bytes), .bytes, coding: "bytes")
        try await send(User(name: "Ann"), .json, coding: "json")
        try await send(User(name: "Ann"), .json.versioned(3), coding: "json@3")
    }

    // MARK: Settings

    @Test("JSON and property lists are written with the settings of their encoder, and read by the decoder's")
    func settings() async throws {
        let disk = try World().open()
        let (encoder, decoder) = (JSONEncoder(), JSONDecoder())
        encoder.dateEncodingStrategy = .iso8601
        encoder.keyEncodingStrategy = .convertToSnakeCase
        decoder.dateDecodingStrategy = .iso8601
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        let json = Coder<User>.json(encoder: encoder, decoder: decoder)
        try await set(User(name: "Ann"), "json", json, disk)
        #expect(String(decoding: disk.data(forKey: "json")!, as: UTF8.self).contains("2023-11-14T22:13:20Z"))
        #expect(await value("json", json, disk) == User(name: "Ann"))
        // The form is the same: only the decoder can tell.
        #expect(await value("json", Coder<User>.json, disk) == nil)

        let lists = PropertyListEncoder()
        lists.outputFormat = .xml
        let list = Coder<User>.propertyList(encoder: lists, decoder: PropertyListDecoder())
        try await set(User(name: "Ann"), "list", list, disk)
        #expect(disk.data(forKey: "list")!.starts(with: Data("<?xml".utf8)))
        for coder in [list, .propertyList] { #expect(await value("list", coder, disk) == User(name: "Ann")) }
        try disk.set(
            Data("<plist><dict>".utf8), as: .propertyList, forKey: "list", ttl: .default, metadata: [:], tags: [])
        #expect(await value("list", list, disk) == nil)
    }

    // MARK: Versions

    private struct Wrong: Error {}

    private static func plain(_ data: Data) throws -> Int {
        guard let number = Int(String(decoding: data, as: UTF8.self)) else { throw Wrong() }
        return number
    }

    /// Version 1 stored tens, version 2 ones, version 3 stores JSON; 0 is what was stored before there were versions.
    private static func numbers(_ version: Int, migrates: ClosedRange<Int>) -> Coder<Int> {
        var migrations: [Int: @Sendable (Data) throws -> Int] = [:]
        for version in migrates { migrations[version] = { try plain($0) * (version == 1 ? 10 : 1) } }
        return Coder<Int>.json.versioned(version, migrating: migrations)
    }

    @Test("a value of an earlier version is migrated, one of a later version is a miss and stays")
    func versions() async throws {
        var world = World()
        var disk = try world.open()
        for version in 0...4 {
            let coder = version == 0 ? Coder<Int>.json : .json.versioned(version)
            try await set(7, "\(version)", coder, disk)
            #expect(coding("\(version)", disk) == (version == 0 ? "json" : "json@\(version)"))
        }
        for _ in 0..<2 {
            var found: [Int?] = []
            for version in 0...4 { found.append(await value("\(version)", Self.numbers(3, migrates: 1...2), disk)) }
            #expect(found == [nil, 70, 7, 7, nil])
            // Set back to a version in which nobody knows of versions.
            #expect(await value("3", Coder<Int>.json, disk) == nil)
            #expect(await value("0", Self.numbers(3, migrates: 0...2), disk) == 7)
            #expect(disk.count == 5)
            try disk.close()
            world.restart()
            disk = try world.open()
        }
        // A fetch replaces a value that nobody can read any more.
        let cache = Cache(disk: disk, namespace: "", coder: Self.numbers(3, migrates: 1...2))
        #expect(try await cache.value(forKey: "4") { 9 } == 9)
        #expect(coding("4", disk) == "json@3")
        // A migration that fails is a miss.
        try await set(7, "1", Coder<Int>.json.versioned(1), disk)
        let failing = Coder<Int>.json.versioned(2, migrating: [1: { _ in throw Wrong() }])
        #expect(await value("1", failing, disk) == nil && disk.hasValue(forKey: "1"))
    }

    @Test("a migrated value keeps its life, tags and metadata, and is of the new version once it is stored again")
    func migrated() async throws {
        let world = World()
        let disk = try world.open()
        let old = Cache(disk: disk, namespace: "", coder: Coder<Int>.json.versioned(1))
        try await old.setValue(7, forKey: "k", ttl: .hours(1), metadata: ["m": "1"], tags: ["t"])
        let new = Cache(disk: disk, namespace: "", coder: Self.numbers(3, migrates: 1...2))
        let found = await new.lookup(forKey: "k")
        #expect(found?.value == 70 && found?.metadata == ["m": "1"])
        #expect(coding("k", disk) == "json@1")
        try await new.modifyValue(forKey: "k") { $0 = ($0 ?? 0) + 1 }
        #expect(coding("k", disk) == "json@3" && disk.data(forKey: "k") == Data("71".utf8))
        #expect(disk.entry(forKey: "k")?.tags == ["t"] && disk.entry(forKey: "k")?.metadata == ["m": "1"])
    }

    @Test(
        "a form that only looks like one with a version, or went through a step that is not undone, is not migrated",
        arguments: [
            "json@", "json@0", "json@x", "@", "json@-1", "json@1+deflate", "json+wrapped", "+deflate", "json@+1",
            "json@01",
        ])
    func oddVersions(name: String) {
        let migrate: @Sendable (Data) throws -> Int = { _ in 1 }
        let coder = Coder<Int>.json.versioned(2, migrating: [0: migrate, 1: migrate])
        #expect(!coder.reads(Coding(name)) && coder.reads(Coding("json@1")) && coder.reads(nil))
        #expect(throws: (any Error).self) { try coder.decode(Data("1".utf8), Coding(name)) }
    }

    @Test("a coder of raw bytes reads any form, but none with a version and none that is compressed")
    func raw() {
        let coders = (
            Coder<Data>.data,
            Coder<Int> {
                Data("\($0)".utf8)
            } decode: { _ in
                1
            }
        )
        for name in ["bytes@1", "json@3", "bytes+deflate", "json@3+deflate"] {
            #expect(!coders.0.reads(Coding(name)) && !coders.1.reads(Coding(name)))
        }
        for name in ["bytes", "json", "utf8", "json+wrapped", "tomorrow"] {
            #expect(coders.0.reads(Coding(name)) && coders.1.reads(Coding(name)))
        }
        #expect(coders.0.reads(nil) && coders.1.versioned(2).reads(Coding("bytes@2")))
    }

    @Test("versions are kept through closures around the coder; values from before these reach the closures")
    func wrapped() async throws {
        let disk = try World().open()
        func sealed(_ coder: Coder<Int>) -> Coder<Int> {
            coder.wrapped {
                Data($0.map { $0 ^ 42 })
            } decode: { data in
                data.first == UInt8(ascii: "7") ? data : Data(data.map { $0 ^ 42 })
            }
        }
        try await set(7, "2", sealed(.json.versioned(2)), disk)
        #expect(coding("2", disk) == "json@2+wrapped" && disk.data(forKey: "2") == Data([UInt8(ascii: "7") ^ 42]))
        #expect(await value("2", sealed(Self.numbers(3, migrates: 2...2)), disk) == 7)
        #expect(await value("2", sealed(Self.numbers(3, migrates: 1...1)), disk) == nil)
        #expect(await value("2", Coder<Int>.json, disk) == nil && disk.value(Int.self, forKey: "2") == nil)
        try await set(7, "json", .json, disk)
        #expect(await value("json", sealed(.json), disk) == 7)
        // As an earlier version has stored it.
        try disk.setData(Data([UInt8(ascii: "7") ^ 42]), forKey: "raw")
        #expect(await value("raw", sealed(.json), disk) == 7)
    }

    @Test("the form of a value travels with it to other machines")
    func machines() async throws {
        let machines = Machines()
        func cache(_ machine: Int, _ coder: Coder<Int>) throws -> Cache<Int> {
            var configuration = Cache<Int>.Configuration()
            configuration.remoteTier = machines.server.connection()
            return try machines.worlds[machine].cache(coder: coder, configuration: configuration)
        }
        let (old, new) = (try cache(0, .json.versioned(1)), try cache(1, Self.numbers(3, migrates: 1...2)))
        try await old.setValue(7, forKey: "k")
        #expect(await new.value(forKey: "k") == 70)
        try await new.setValue(8, forKey: "k")
        #expect(await old.value(forKey: "k") == nil)
        #expect(try await old.value(forKey: "k") { 9 } == 9)
    }
}
