import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// Random operations against a plain dictionary that keeps the promises by being too simple to break them.
@Suite("The cache behaves like a dictionary with expiry dates", .storm)
struct ModelTests {
    struct Value {
        var data: Data
        var expires: Int64
        var ttl: Int64
        var metadata: [String: String]
        var tags: [String]
        var form = Form.raw
        /// How long it is kept beyond its expiry.
        var kept: Int64 = 0

        /// The value left after a caller expires it.
        func expired(at now: Int64) -> Value? {
            if kept == 0 { return nil }
            var ended = self
            ended.expires = min(expires, now)
            ended.ttl = .max
            return ended
        }
    }

    enum Form: CaseIterable {
        case raw, string, json
    }

    static let namespaces = ["", "users", "users\u{1F}x", "e\u{301}", "\u{e9}"]
    static let keys = (0..<24).map { "key \($0)" } + ["", "..", "a/b", "a_b", "e\u{301}", "\u{e9}", "\u{0}"]

    struct Run {
        var generator: SeededGenerator
        var world: World
        var cache: DiskCache
        /// By namespace and key.
        var model: [[[UInt8]]: Value] = [:]
        var namespace = ""
        /// Steps for which a miss is allowed where the model has a value: the index was lost.
        var grace = 0
        /// Another process, which takes every other step or so. With it nothing is damaged: what is found damaged while
        /// others live stays a miss.
        var other: (world: World, cache: DiskCache)?

        init(seed: UInt64, sliding: Bool, isShared: Bool = false) throws {
            generator = SeededGenerator(seed: seed)
            world = World.grouped { $0.slidingExpiry = sliding }
            cache = try world.open()
            if isShared {
                let another = world.anotherProcess()
                other = (another, try another.open())
            }
        }

        private mutating func changePlaces() {
            guard let next = other else { return }
            other = (world, cache)
            (world, cache) = next
        }

        var now: Int64 { world.clock.milliseconds }

        func name(_ key: String) -> [[UInt8]] { [Array(namespace.utf8), Array(key.utf8)] }

        mutating func freshValue(_ key: String) -> Value? {
            guard let value = model[name(key)], now < value.expires else { return nil }
            return value
        }

        mutating func life() -> (TimeToLive, milliseconds: Int64) {
            let milliseconds = [0, 1, 500, 5_000, 60_000, 3_600_000].randomElement(using: &generator) ?? 0
            return milliseconds == 3_600_000
                ? (.forever, Int64.max) : (.init(.milliseconds(milliseconds)), Int64(milliseconds))
        }

        mutating func step(_ sliding: Bool) throws {
            if grace > 0 {
                grace -= 1
                if grace == 0 { try settle() }
            }
            if other != nil, generator.chance(50) { changePlaces() }
            let key = ModelTests.keys.randomElement(using: &generator) ?? ""
            namespace = generator.chance(40) ? ModelTests.namespaces.randomElement(using: &generator) ?? "" : ""
            let (whole, cache) = (self.cache, self.cache.namespace(namespace))
            let bytes = name(key)
            switch Int.random(in: 0..<100, using: &generator) {
            case 0..<35:
                let (ttl, milliseconds) = life()
                let size = [0, 3, 14, 15, 300].randomElement(using: &generator) ?? 0
                let data = Data(generator.bytes(size))
                let metadata = generator.chance(30) ? ["n": key] : [:]
                let tags = ["t", "e\u{301}", "\u{e9}"].filter { _ in generator.chance(20) }
                let form = generator.chance(50) ? Form.raw : .allCases.randomElement(using: &generator) ?? .raw
                let number = Int.random(in: 0..<1_000_000, using: &generator)
                switch form {
                case .raw where metadata.isEmpty && milliseconds > 0 && generator.chance(50):
                    let kept: Int64 = generator.chance(50) ? 5_000 : 3_600_000
                    let text = "\(number)"
                    try cache.setKept(text, forKey: key, ttl: ttl, keptStale: kept, tags: tags)
                    let expires = milliseconds == .max ? .max : now + milliseconds
                    model[bytes] = Value(
                        data: Data(text.utf8), expires: expires, ttl: milliseconds, metadata: [:], tags: tags,
                        kept: kept)
                    return
                case .raw: try cache.setData(data, forKey: key, ttl: ttl, metadata: metadata, tags: tags)
                case .string: try cache.setValue("\(number)", forKey: key, ttl: ttl, metadata: metadata, tags: tags)
                case .json: try cache.setValue(number, forKey: key, ttl: ttl, metadata: metadata, tags: tags)
                }
                let stored = form == .raw ? data : Data("\(number)".utf8)
                let expires = milliseconds == .max ? .max : now + milliseconds
                model[bytes] =
                    milliseconds == 0
                    ? nil
                    : Value(
                        data: stored, expires: expires, ttl: milliseconds, metadata: metadata, tags: tags, form: form)
            case 35..<55:
                let value = freshValue(key)
                let data = cache.data(forKey: key)
                #expect(data == value?.data || data == nil && grace > 0)
                // A read in the wrong form is a use too, but after a miss it is unknown whether there was one.
                if !sliding {
                    let text = value.flatMap { $0.form == .json ? nil : String(data: $0.data, encoding: .utf8) }
                    let found = cache.string(forKey: key)
                    #expect(found == text || found == nil && grace > 0)
                    let number = value.flatMap {
                        $0.form == .string ? nil : try? JSONDecoder().decode(Int.self, from: $0.data)
                    }
                    let decoded = cache.value(Int.self, forKey: key)
                    #expect(decoded == number || decoded == nil && grace > 0)
                }
                if sliding, data != nil, let value, value.ttl != .max {
                    let expires = max(value.expires, now + value.ttl)
                    model[bytes]?.expires = expires
                }
            case 55..<63:
                let isFresh = freshValue(key) != nil
                let isRemoved = try cache.removeValue(forKey: key)
                #expect(isRemoved == isFresh || !isRemoved && grace > 0)
                model[bytes] = nil
            case 63..<71:
                let (ttl, milliseconds) = life()
                let isFresh = freshValue(key) != nil
                let isRenewed = try cache.setTimeToLive(ttl, forKey: key)
                #expect(isRenewed == isFresh || !isRenewed && grace > 0)
                if milliseconds == 0 {
                    model[bytes] = nil
                } else if isRenewed {
                    let expires = milliseconds == .max ? .max : now + milliseconds
                    model[bytes]?.expires = expires
                    model[bytes]?.ttl = milliseconds
                }
            case 71..<75:
                world.clock.advance(by: .milliseconds([1, 499, 5_000, 61_000].randomElement(using: &generator) ?? 1))
            case 75..<77:
                _ = cache.removeExpired()
            case 77..<79:
                try settle()
            case 79 where generator.chance(50):
                try self.cache.removeAll()
                model = [:]
            case 79:
                try whole.namespace("").removeAll()
                model = model.filter { $0.key[0] != [] }
            case 87...88 where !namespace.isEmpty:
                try cache.removeAll()
                model = model.filter { $0.key[0] != bytes[0] }
            case 89...90:
                let tag = ["t", "e\u{301}", "\u{e9}", "none"].randomElement(using: &generator) ?? ""
                try cache.removeAll(tagged: tag)
                model = model.filter { entry in
                    entry.key[0] != bytes[0] || !entry.value.tags.contains { $0.hasSameBytes(as: tag) }
                }
            case 91:
                let isFresh = freshValue(key) != nil
                let isExpired = try cache.expireValue(forKey: key)
                #expect(isExpired == isFresh || !isExpired && grace > 0)
                model[bytes] = model[bytes]?.expired(at: now)
            case 92 where generator.chance(20):
                try whole.expireAll()
                for (name, value) in model { model[name] = value.expired(at: now) }
            case 92 where generator.chance(50):
                try cache.expireAll()
                for (name, value) in model where name[0] == bytes[0] { model[name] = value.expired(at: now) }
            case 92:
                let tag = ["t", "e\u{301}", "\u{e9}", "none"].randomElement(using: &generator) ?? ""
                try cache.expireAll(tagged: tag)
                for (name, value) in model
                where name[0] == bytes[0] && value.tags.contains(where: { $0.hasSameBytes(as: tag) }) {
                    model[name] = value.expired(at: now)
                }
            case 93...94:
                // A fresh value would slide.
                guard freshValue(key) == nil else { return }
                let value = model[bytes].flatMap { now < $0.expires + $0.kept ? $0 : nil }
                let found = cache.usable(key).map { Data($0.utf8) }
                #expect(found == value?.data || found == nil && grace > 0)
            case 80..<84:
                // A kill may shorten lives extended since the last sweep.
                try restart(kill: !sliding, losing: [])
            case 84..<86:
                try restart(kill: false, losing: [])
            case 86 where other == nil:
                try restart(
                    kill: !sliding,
                    losing: [["manifest.json"], ["journal"], ["manifest.json", "journal"]].randomElement(
                        using: &generator) ?? [])
            default:
                let value = freshValue(key)
                let hasValue = cache.hasValue(forKey: key)
                #expect(hasValue == (value != nil) || !hasValue && grace > 0)
                guard let entry = cache.entry(forKey: key) else {
                    #expect(value == nil || grace > 0)
                    return
                }
                #expect(entry.metadata == value?.metadata)
                #expect(entry.tags.map { Array($0.utf8) } == value?.tags.map { Array($0.utf8) })
            }
        }

        /// Reopens the cache, after a close or as if killed, with parts of the index deleted or damaged. The next steps
        /// run before a flush.
        mutating func restart(kill: Bool, losing names: [String]) throws {
            if grace > 0 { try settle() }
            if !kill { try cache.close() }
            if other != nil {
                if kill { world.files.kill() }
                world = world.anotherProcess()
                cache = try world.open()
                return
            }
            var image = world.files.image
            let isDeleted = generator.chance(50)
            for name in image.names(at: "/cache") where names.contains(where: { name.hasPrefix($0) }) {
                let path = "/cache/" + name
                if isDeleted {
                    image.remove(at: path)
                } else if var content = image.content(at: path), content.count > 40 {
                    for _ in 0..<3 { content[Int.random(in: 20..<content.count, using: &generator)] ^= 4 }
                    image.setContent(content, at: path)
                }
            }
            world.restart(with: image)
            cache = try world.open()
            if names.isEmpty { return }
            grace = 12
            if world.configuration.slidingExpiry { takeOverShorterLives() }
        }

        /// The loss of the index may shorten an extended sliding life by up to a tenth of its TTL, never more.
        private mutating func takeOverShorterLives() {
            let values = model
            for (name, value) in values where value.ttl != .max && value.expires > now {
                let space = String(decoding: name[0], as: UTF8.self)
                let key = String(decoding: name[1], as: UTF8.self)
                var entry = cache.namespace(space).entry(forKey: key)
                if entry == nil {
                    // It may be in a damaged group: a miss until the files are listed.
                    cache.store.recovery.awaitScan()
                    entry = cache.namespace(space).entry(forKey: key)
                }
                let expires = entry?.expiresAt.map { Int64(($0.timeIntervalSince1970 * 1000).rounded()) }
                #expect(expires ?? 0 >= value.expires - value.ttl / 10 - 1 || value.expires - value.ttl / 10 - 1 <= now)
                #expect(expires ?? 0 <= value.expires)
                var shorter = value
                shorter.expires = expires ?? now
                model[name] = shorter
            }
        }

        mutating func settle() throws {
            grace = 0
            try other?.cache.flush()
            try cache.flush()
            cache.checkInvariants(world, settled: true)
        }

        mutating func compare() {
            for namespace in ModelTests.namespaces { compare(namespace) }
        }

        private mutating func compare(_ namespace: String) {
            self.namespace = namespace
            let cache = cache.namespace(namespace)
            let fresh = model.filter { $0.value.expires > now && $0.key[0] == Array(namespace.utf8) }
            #expect(Set(cache.keys().map { name($0) }) == Set(fresh.keys))
            if grace == 0 { #expect(cache.count >= fresh.count) }
            for entry in cache.entries() {
                #expect(entry.namespace ?? "" == namespace)
                let value = fresh[name(entry.key)]
                #expect(entry.payloadSize == value?.data.count)
                let expires = entry.expiresAt.map { Int64(($0.timeIntervalSince1970 * 1000).rounded()) } ?? .max
                #expect(expires == value?.expires)
            }
        }
    }

    @Test(
        "under random operations, kills, and losses and damage of the index",
        arguments: Sample.few(3, of: 1...12 as ClosedRange<UInt64>))
    func random(round: UInt64) throws {
        let seed = round &* 0x9E37_79B9
        let sliding = round.isMultiple(of: 3)
        var run = try Run(seed: seed, sliding: sliding)
        for step in 0..<700 {
            try run.step(sliding)
            run.cache.checkInvariants()
            if step % 20 == 0 { run.compare() }
        }
        run.compare()
        try run.cache.flush()
        run.cache.checkInvariants(run.world, settled: true)
        if Test.current != nil { print("model test: seed \(seed), \(run.model.count) values at the end") }
    }

    @Test(
        "so do two processes on one directory, of which now one and now the other takes a step, or is killed",
        arguments: Sample.few(2, of: 1...6 as ClosedRange<UInt64>))
    func twoProcesses(round: UInt64) throws {
        let seed = round &* 0x51_7CC1
        var run = try Run(seed: seed, sliding: false, isShared: true)
        for step in 0..<500 {
            try run.step(false)
            run.cache.checkInvariants()
            if step % 20 == 0 { run.compare() }
        }
        run.compare()
        try run.settle()
        if Test.current != nil { print("model test: seed \(seed), \(run.model.count) values of two processes") }
    }

    @Test("a shard's table finds the same entries as a dictionary", arguments: 1...4 as ClosedRange<UInt64>)
    func manifest(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var manifest = EntryTable()
        var model: [String: UInt64] = [:]
        for number in 1...4000 as ClosedRange<UInt64> {
            let key = Key("k\(Int.random(in: 0..<600, using: &generator))")
            if generator.chance(55) {
                var entry = RecordTests.entry
                entry.keyText = key.text
                entry.file = FileID(number)
                entry.life.expires.milliseconds = Int64.random(in: 0..<10_000, using: &generator)
                manifest.publish(entry, for: key)
                model[key.text] = number
            } else {
                #expect(manifest.remove(key)?.file.number == model.removeValue(forKey: key.text))
            }
            if number % 500 == 0 { #expect(manifest.violations() == []) }
        }
        for key in 0..<600 { #expect(manifest.entry(Key("k\(key)"))?.file.number == model["k\(key)"]) }
        var purged = 0
        for time in stride(from: 0, through: 10_000, by: 500) {
            purged += manifest.removeExpired(at: .init(milliseconds: Int64(time)), limit: .max).count
            #expect(manifest.violations() == [])
        }
        #expect(purged == model.count && manifest.count == 0)
    }
}
