#if Redis
    import Foundation
    import Larder
    import LarderFiles
    import LarderRedis
    import LarderTestSupport
    import LarderTesting
    import Testing

    /// Bytes that no server of ours would send.
    @Suite("A Redis that means harm", .serialized, .timeLimit(.minutes(10)))
    struct RedisHostileTests {
        enum Flood: CaseIterable {
            case text, elements, arrays

            /// Without an end.
            var reply: FakeRedis.Reply {
                let numbers = [UInt8](repeatElement(Array(":1\r\n".utf8), count: 1000).joined())
                return switch self {
                case .text:
                    .init(
                        start: Array("$999999999\r\n".utf8), endless: [UInt8](repeating: 120, count: 1 << 16))
                case .elements: .init(start: Array("*99999999\r\n".utf8), endless: numbers)
                case .arrays: .init(start: Array("*90000\r\n".utf8), endless: Array("*1000\r\n".utf8) + numbers)
                }
            }
        }

        @Test(
            "a reply without an end is refused before it fills the memory, while connecting and later",
            arguments: Flood.allCases, ["CLIENT", "SUBSCRIBE", "EVALSHA"])
        func flood(_ flood: Flood, _ moment: String) async throws {
            let reply = flood.reply
            let server = try FakeRedis { $0.contains(moment) ? reply : nil }
            let tier = RedisTier(configuration: .init(port: server.port))
            if moment == "EVALSHA" {
                await eventually { tier.isConnected }
                await #expect(throws: (any Error).self) {
                    try await tier.read(RemoteRead(key: RemoteKey(key: "k"), sizeLimit: 1000))
                }
            }
            await eventually { server.ended.connections > 0 }
            // The bytes that are still in the buffers of the system have not reached the client.
            #expect(server.ended.sent < FakeRedis.enough / 2)
        }

        @Test("a server that shows an impossible time is not connected to", arguments: ["9223372036854775807", "-1"])
        func time(_ time: String) async throws {
            let server = try FakeRedis {
                $0.contains("EVAL\r\n") ? .init(start: Array("*3\r\n$1\r\ne\r\n:\(time)\r\n$1\r\ne\r\n".utf8)) : nil
            }
            let tier = RedisTier(configuration: .init(port: server.port))
            await eventually { tier.reason.contains("epoch") }
            #expect(!tier.isConnected)
        }

        @Test("an error of any length is cut")
        func longError() async throws {
            let server = try FakeRedis { _ in
                .init(start: Array("-ERR ".utf8) + [UInt8](repeating: 120, count: 1 << 20) + [13, 10])
            }
            let tier = RedisTier(configuration: .init(port: server.port))
            await eventually { tier.reason.contains("xxx") }
            #expect(tier.reason.utf8.count < 1000)
        }

        @Test("random answers are misses or errors, and the cache goes on")
        func random() async throws {
            let seed = RunSeed.seed()
            print("random answers of a Redis: seed \(seed)")
            let replies = RandomReplies(seed: seed)
            let server = try FakeRedis { $0.contains("EVALSHA") ? .init(start: replies.next()) : nil }
            let tier = RedisTier(configuration: .init(port: server.port))
            let world = TestWorld(now: Date())
            let cache: Cache<String> = try world.cache(configuration: .init(remoteTier: tier))
            for number in 0..<100 {
                await eventually { tier.isConnected }
                // Waits after failures are over.
                world.advance(by: .seconds(60))
                try await cache.setValue("v\(number)", forKey: "k\(number)")
                let own = await cache.value(forKey: "k\(number)")
                // Its own tombstone, as it seems, or something newer may have come.
                #expect(own == nil || own == "v\(number)", "seed \(seed)")
                let other = await cache.value(forKey: "missing\(number)")
                #expect(other == nil, "seed \(seed)")
            }
        }
    }

    /// Replies that are well formed, and mean anything.
    private final class RandomReplies: Sendable {
        private let generator: Lock<SeededGenerator>

        init(seed: UInt64) {
            generator = Lock(SeededGenerator(seed: seed))
        }

        func next() -> [UInt8] { generator.withLock { Array(Self.reply(0, &$0).utf8) } }

        private static func reply(_ depth: Int, _ generator: inout SeededGenerator) -> String {
            let numbers = ["0", "1", "2", "3", "4", "5", "-1", "9223372036854775807", "-9223372036854775808"]
            switch Int.random(in: depth == 0 ? 3..<9 : depth > 3 ? 0..<3 : 0..<6, using: &generator) {
            case 0: return ":\(numbers.randomElement(using: &generator)!)\r\n"
            case 1:
                let texts = ["", "x", String(repeating: "f", count: 32), String(repeating: "0", count: 32), "-OOM "]
                let text = texts.randomElement(using: &generator)!
                return "$\(text.utf8.count)\r\n\(text)\r\n"
            case 2: return ["$-1\r\n", "*-1\r\n", "+OK\r\n", "*0\r\n"].randomElement(using: &generator)!
            case 8:
                return ["-OOM full\r\n", "-READONLY you cannot\r\n", "-NOSCRIPT none\r\n", "+OK\r\n"]
                    .randomElement(using: &generator)!
            default:
                // Most begin as an answer does: its kind, and the state of the generations.
                let kind = "\(Int.random(in: 0...5, using: &generator))"
                let count = Int.random(in: 0...10, using: &generator)
                let rest = (0..<count).map { _ in reply(depth + 1, &generator) }.joined()
                return "*\(count + 2)\r\n:\(kind)\r\n:\(Int.random(in: 0...3, using: &generator))\r\n\(rest)"
            }
        }
    }
#endif
