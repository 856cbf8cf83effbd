#if Zlib || canImport(Compression)
    import Foundation
    import LarderFiles
    import LarderTestSupport
    import LarderTesting
    import Testing

    @testable import Larder

    @Suite("Compressed values")
    struct CompressedTests {
        private static let text = String(repeating: "All work and no play. ", count: 500)

        private func cache<Value: Sendable>(_ disk: DiskCache, _ coder: Coder<Value>) -> Cache<Value> {
            var configuration = Cache<Value>.Configuration()
            configuration.memory = nil
            return Cache(disk: disk, namespace: "", coder: coder, configuration: configuration)
        }

        private func coding(_ key: String, _ disk: DiskCache) -> String? {
            disk.store.index.entry(disk.key(key))?.coding?.name
        }

        @Test("a value is compressed where that makes it smaller, and read in either case")
        func smaller() async throws {
            var world = World()
            var disk = try world.open()
            var generator = RunSeed.generator()
            let noise = (0..<5_000).map { _ in UInt8.random(in: 0...255, using: &generator) }
            try await cache(disk, Coder<String>.string.compressed()).setValue(Self.text, forKey: "text")
            try await cache(disk, Coder<String>.string.compressed()).setValue("short", forKey: "short")
            try await cache(disk, Coder<[UInt8]>.bytes.compressed()).setValue(noise, forKey: "noise")
            try await cache(disk, Coder<Data>.data.compressed()).setValue(Data(Self.text.utf8), forKey: "data")
            let codings = ["text": "utf8+deflate", "short": "utf8", "noise": "bytes", "data": "bytes+deflate"]
            for _ in 0..<2 {
                for (key, name) in codings { #expect(coding(key, disk) == name, "\(key)") }
                #expect(try #require(disk.entry(forKey: "text")).payloadSize < Self.text.utf8.count / 20)
                #expect(await cache(disk, Coder<String>.string.compressed()).value(forKey: "text") == Self.text)
                #expect(await cache(disk, Coder<String>.string.compressed()).value(forKey: "short") == "short")
                #expect(await cache(disk, Coder<[UInt8]>.bytes.compressed()).value(forKey: "noise") == noise)
                #expect(await cache(disk, Coder<Data>.data.compressed()).value(forKey: "data") == Data(Self.text.utf8))
                // Others do not take the stream for a value.
                #expect(disk.string(forKey: "text") == nil && disk.bytes([UInt8].self, forKey: "data") == nil)
                try disk.close()
                world.restart()
                disk = try world.open()
            }
        }

        @Test("what was stored before, or in another version, is read; closures go around the stream")
        func composed() async throws {
            let disk = try World().open()
            let flip: @Sendable (Data) -> Data = { Data($0.map { $0 ^ 42 }) }
            try await cache(disk, Coder<String>.json).setValue(Self.text, forKey: "plain")
            #expect(await cache(disk, Coder<String>.json.compressed()).value(forKey: "plain") == Self.text)
            let old = Coder<String>.json.versioned(1).compressed().wrapped(encode: flip, decode: flip)
            try await cache(disk, old).setValue(Self.text, forKey: "old")
            #expect(coding("old", disk) == "json@1+deflate+wrapped")
            let migrate: @Sendable (Data) throws -> String = { "\($0.count)" }
            let new = Coder<String>.json.versioned(2, migrating: [1: migrate]).compressed()
                .wrapped(encode: flip, decode: flip)
            #expect(await cache(disk, old).value(forKey: "old") == Self.text)
            // A migration sees the bytes as they were before they were compressed.
            #expect(await cache(disk, new).value(forKey: "old") == "\(Self.text.utf8.count + 2)")
        }

        @Test("a value above the limit is stored as it is, and a stream that exceeds it is a miss")
        func limits() async throws {
            let disk = try World().open()
            try await cache(disk, Coder<String>.string.compressed()).setValue(Self.text, forKey: "k")
            let coder = Coder<String>.string.compressed(limit: Self.text.utf8.count - 1)
            #expect(await cache(disk, coder).value(forKey: "k") == nil && disk.hasValue(forKey: "k"))
            try await cache(disk, coder).setValue(Self.text, forKey: "k")
            #expect(coding("k", disk) == "utf8" && disk.string(forKey: "k") == Self.text)
        }

        @Test("damaged and hostile streams are refused: none writes beyond its size, or claims more than it can hold")
        func hostile() throws {
            let good = try #require(Deflate.compress(Data(Self.text.utf8)))
            #expect(Deflate.expand(good, limit: 1 << 20) == Data(Self.text.utf8))
            func claiming(_ size: UInt64, _ stream: Data) -> Data {
                withUnsafeBytes(of: size.littleEndian) { Data($0) } + stream
            }
            let (stream, size) = (good.dropFirst(8), UInt64(Self.text.utf8.count))
            for claim in [0, size - 1, size + 1, size * 1000, 1 << 40, 1 << 63, .max] {
                #expect(Deflate.expand(claiming(claim, stream), limit: .max) == nil, "\(claim)")
            }
            #expect(Deflate.expand(good + [0], limit: 1 << 20) == nil)
            for count in 0..<good.count { #expect(Deflate.expand(good.prefix(count), limit: 1 << 20) == nil) }
            var generator = RunSeed.generator()
            for _ in 0..<2_000 {
                var bytes = good
                for _ in 0..<Int.random(in: 1...4, using: &generator) {
                    let place = Int.random(in: 0..<bytes.count, using: &generator)
                    bytes[bytes.startIndex + place] = .random(in: 0...255, using: &generator)
                }
                let claim = bytes.prefix(8).reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
                if let found = Deflate.expand(bytes, limit: 1 << 20) { #expect(UInt64(found.count) == claim) }
            }
            // The densest stream that there is expands; a claim beyond it is not believed.
            let zeros = Data(count: 1 << 20)
            let dense = try #require(Deflate.compress(zeros))
            #expect(
                Deflate.expand(dense, limit: 1 << 20) == zeros && Deflate.expand(dense, limit: (1 << 20) - 1) == nil)
        }
    }
#endif
