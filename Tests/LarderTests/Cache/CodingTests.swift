import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("A type has one default form, and a value is read only in the form in which it was stored")
struct CodingTests {
    /// The two ways to a value on disk.
    enum Door: CaseIterable {
        case disk, cache

        private func cache<Value: Codable & Sendable>(_ disk: DiskCache) -> Cache<Value> {
            var configuration = Cache<Value>.Configuration()
            configuration.memory = nil
            return Cache(disk: disk, namespace: "", configuration: configuration)
        }

        func set<Value: Codable & Sendable>(
            _ value: Value, _ key: String, in disk: DiskCache, metadata: [String: String] = [:], tags: [String] = []
        ) async throws {
            switch self {
            case .disk: try disk.setValue(value, forKey: key, metadata: metadata, tags: tags)
            case .cache: try await cache(disk).setValue(value, forKey: key, metadata: metadata, tags: tags)
            }
        }

        func value<Value: Codable & Sendable>(_ type: Value.Type, _ key: String, in disk: DiskCache) async -> Value? {
            switch self {
            case .disk: disk.value(type, forKey: key)
            case .cache: await cache(disk).value(forKey: key)
            }
        }
    }

    @Test(
        "strings and data stored through one door come back through the other, byte by byte", arguments: Door.allCases,
        Door.allCases)
    func doors(writer: Door, reader: Door) async throws {
        let disk = try World().open()
        try await writer.set("s", "string", in: disk)
        #expect(await reader.value(String.self, "string", in: disk) == "s")
        #expect(disk.string(forKey: "string") == "s" && disk.data(forKey: "string") == data("s"))
        try await writer.set(Data([0, 255]), "data", in: disk)
        #expect(await reader.value(Data.self, "data", in: disk) == Data([0, 255]))
        #expect(disk.data(forKey: "data") == Data([0, 255]))
        try await writer.set([1, 2], "list", in: disk)
        #expect(await reader.value([Int].self, "list", in: disk) == [1, 2])
        #expect(disk.data(forKey: "list") == data("[1,2]"))
        // An optional string is a different type.
        try await writer.set(String?("s"), "optional", in: disk)
        #expect(await reader.value(String?.self, "optional", in: disk) == "s")
        #expect(disk.data(forKey: "optional") == data(#""s""#))
        try disk.setString("é", forKey: "set")
        #expect(await reader.value(String.self, "set", in: disk) == "é")
        let erased: any Encodable = "é"
        try disk.setValue(erased, forKey: "erased")
        #expect(disk.string(forKey: "erased") == "é")
    }

    @Test(
        "the JSON of a number is not a string: a miss, reported once and kept", arguments: Door.allCases, Door.allCases)
    func number(writer: Door, reader: Door) async throws {
        let log = EventLog()
        let disk = try World { $0.onEvent = log.note }.open().namespace("n")
        try await writer.set(42, "k", in: disk)
        #expect(await reader.value(String.self, "k", in: disk) == nil)
        let events = log.events(of: disk)
        #expect(events.map(\.error?.code) == [.undecodable] && events.map(\.kind) == [.failed])
        #expect(events.map(\.keys) == [["k"]] && events.map(\.namespace) == ["n"])
        #expect(events.first?.error?.message.contains("is JSON, not a value of the type String") == true)
        #expect(disk.statistics.misses == 1 && disk.statistics.hits == 0)
        for door in Door.allCases { #expect(await door.value(Int.self, "k", in: disk) == 42) }
        #expect(disk.data(forKey: "k") == data("42") && log.events(of: disk).count == 1)
        try await writer.set("42", "k", in: disk)
        #expect(await reader.value(Int.self, "k", in: disk) == nil)
        #expect(await reader.value(String.self, "k", in: disk) == "42")
    }

    /// One value of each form.
    static var forms: [String] {
        var forms = ["string", "json", "list"]
        #if FoundationExtras || canImport(Darwin)
            forms.append("archive")
        #endif
        return forms
    }

    private func fill(
        _ disk: DiskCache, metadata: [String: String] = [:], tags: [String] = []
    ) async throws {
        try disk.setString("42", forKey: "string", metadata: metadata, tags: tags)
        try await Door.cache.set(42, "json", in: disk, metadata: metadata, tags: tags)
        let lists = Cache<[String: Int]>(disk: disk, namespace: "", coder: .propertyList)
        try await lists.setValue(["a": 1], forKey: "list", metadata: metadata, tags: tags)
        #if FoundationExtras || canImport(Darwin)
            try disk.setArchivedObject(NSString("text"), forKey: "archive", metadata: metadata, tags: tags)
        #endif
    }

    /// Reads each value in each form, and with coders.
    private func expectEachFormAlone(_ disk: DiskCache, _ context: Comment? = nil) async {
        for form in Self.forms {
            #expect((disk.string(forKey: form) != nil) == (form == "string"), context)
            #expect((disk.value(Int.self, forKey: form) != nil) == (form == "json"), context)
            #if FoundationExtras || canImport(Darwin)
                #expect((disk.propertyList(forKey: form) != nil) == (form == "list"), context)
                #expect((disk.archivedObject(NSString.self, forKey: form) != nil) == (form == "archive"), context)
            #endif
            let texts = Cache<String>(disk: disk, namespace: "", coder: .string)
            #expect((await texts.value(forKey: form) != nil) == (form == "string"), context)
            let json = Cache<Int>(disk: disk, namespace: "", coder: .json)
            #expect((await json.value(forKey: form) != nil) == (form == "json"), context)
            let lists = Cache<[String: Int]>(disk: disk, namespace: "", coder: .propertyList)
            #expect((await lists.value(forKey: form) != nil) == (form == "list"), context)
            #expect(disk.data(forKey: form) != nil && disk.hasValue(forKey: form), context)
        }
    }

    @Test("strings, JSON, property lists and archives are each read in their own form, and as bytes")
    func forms() async throws {
        let disk = try World().open()
        try await fill(disk)
        await expectEachFormAlone(disk)
    }

    static let losses: [[String]] = [[], ["journal"], ["manifest"], ["manifest", "journal"]]

    @Test(
        "the form survives a kill, a close and the loss of the index, with metadata, tags and a namespace",
        arguments: [ManifestFormat.json, .propertyList], losses)
    func lostIndex(format: ManifestFormat, lost: [String]) async throws {
        for isClosed in [true, false] {
            var world = World {
                $0.sweepInterval = nil
                $0.manifestFormat = format
            }
            var disk = try world.open()
            try await fill(disk)
            try await fill(disk.namespace("bare"))
            try disk.flush()
            try await fill(disk.namespace("n"), metadata: ["etag": "1"], tags: ["t", "u"])
            if isClosed { try disk.close() }
            world.restart()
            for name in world.names where lost.contains(where: { name.hasPrefix($0) }) { world.remove(name) }
            disk = try world.open()
            // Reads come first, before reconciliation.
            for round in 1...2 {
                for namespace in ["n", "", "bare"] {
                    await expectEachFormAlone(disk.namespace(namespace), "\(namespace), round \(round), \(isClosed)")
                }
                for entry in disk.namespace("n").entries() {
                    #expect(entry.metadata == ["etag": "1"] && entry.tags == ["t", "u"])
                }
                try disk.flush()
            }
            #expect(try disk.verify().isClean)
            try disk.namespace("n").removeAll(tagged: "t")
            #expect(disk.namespace("n").keys() == [] && disk.namespace("bare").keys().count == Self.forms.count)
        }
    }

    @Test("a value keeps its form when it was not modified or gets another life", arguments: losses)
    func renewal(lost: [String]) async throws {
        var world = World { $0.sweepInterval = nil }
        var disk = try world.open()
        var numbers = Cache<Int>(disk: disk, namespace: "n")
        func fetch(_ revalidation: FetchResult<Int>) async throws -> Int {
            try await numbers.value(forKey: "k", ttl: .seconds(10)) { (_: Lookup<Int>?) in revalidation }
        }
        #expect(try await fetch(.value(42, metadata: ["etag": "1"])) == 42)
        world.clock.advance(by: .seconds(20))
        #expect(try await fetch(.notModified(metadata: ["etag": "1", "more": "x"])) == 42)
        #expect(try await numbers.setTimeToLive(.hours(1), forKey: "k"))
        #expect(disk.namespace("n").string(forKey: "k") == nil)
        world.restart()
        for name in world.names where lost.contains(where: { name.hasPrefix($0) }) { world.remove(name) }
        disk = try world.open()
        numbers = Cache(disk: disk, namespace: "n")
        for _ in 0..<2 {
            #expect(disk.namespace("n").string(forKey: "k") == nil)
            #expect(await numbers.value(forKey: "k") == 42)
            try disk.flush()
        }
    }

    @Test("a coder made from closures reads any form, as data does; raw bytes are tried in any form")
    func closures() async throws {
        let disk = try World().open()
        let closures = Coder<String> {
            Data($0.utf8)
        } decode: {
            String(decoding: $0, as: UTF8.self)
        }
        let wrapped = Coder<String>.string.wrapped {
            Data($0.reversed())
        } decode: {
            // Also accepts values that were stored before the wrapping.
            $0.first == UInt8(ascii: "4") ? $0 : Data($0.reversed())
        }
        var configuration = Cache<String>.Configuration()
        configuration.memory = nil
        let own = Cache(disk: disk, namespace: "", coder: closures, configuration: configuration)
        let reversed = Cache(disk: disk, namespace: "", coder: wrapped, configuration: configuration)
        try disk.setValue(42, forKey: "json")
        try disk.setValue("42", forKey: "string")
        for key in ["json", "string"] {
            #expect(await own.value(forKey: key) == "42")
            #expect(await reversed.value(forKey: key) == "42")
            #expect(disk.value(Data.self, forKey: key) == data("42"))
        }
        try await own.setValue("42", forKey: "own")
        try await reversed.setValue("24", forKey: "reversed")
        try disk.setData(data("42"), forKey: "raw")
        for door in Door.allCases {
            for key in ["own", "raw"] {
                #expect(await door.value(String.self, key, in: disk) == "42")
                #expect(await door.value(Int.self, key, in: disk) == 42)
            }
            // What was wrapped says so.
            #expect(await door.value(String.self, "reversed", in: disk) == nil)
            #expect(await door.value(Data.self, "reversed", in: disk) == data("42"))
        }
    }

    @Test("entries of one form share their attachments, including those found by their files")
    func memory() throws {
        var world = World { $0.sweepInterval = nil }
        var disk = try world.open()
        func attachments() -> (objects: Int, entries: Int) {
            var found: [ObjectIdentifier] = []
            disk.store.index.loadAll()
            disk.store.index.forEachShard { shard in
                for entry in shard.table.entries { entry.attachments.map { found.append(ObjectIdentifier($0)) } }
            }
            return (Set(found).count, found.count)
        }
        // More entries than are read before the first answer.
        let count = OpeningScan.mostAtOnce
        for number in 0..<count {
            try disk.setString("v", forKey: "\(number)")
            if number.isMultiple(of: 8) { try disk.namespace("n").setValue(number, forKey: "\(number)") }
        }
        try disk.setData(data("raw"), forKey: "raw")
        let coded = count + count / 8
        #expect(attachments() == (2, coded))
        try disk.close()
        world.restart()
        disk = try world.open()
        #expect(attachments() == (2, coded) && disk.count + disk.namespace("n").count == coded + 1)
        try disk.close()
        world.remove(try world.journal)
        world.remove("manifest.json")
        disk = try world.open()
        try disk.flush()
        // Two found by the opening, and two found later.
        let found = attachments()
        #expect(found.objects <= 4 && found.entries == coded && disk.count + disk.namespace("n").count == coded + 1)
    }

    @Test("metadata changed by a cache that reads any form do not change the value's form")
    func notModifiedKeepsBytes() async throws {
        let world = World { $0.sweepInterval = nil }
        let disk = try world.open()
        try disk.setValue(["b": 1], forKey: "k", metadata: ["e": "1"])
        let cache = Cache<Data>(disk: disk, namespace: "")
        _ = try await cache.lookup(forKey: "k", policy: .reload) { _ in .notModified(metadata: ["e": "2"]) }
        #expect(disk.value([String: Int].self, forKey: "k") == ["b": 1])
        #expect(disk.store.index.entry("k")?.coding == .json, "the form was lost")
        #expect(disk.string(forKey: "k") == nil, "JSON was returned as a string")
    }
}
