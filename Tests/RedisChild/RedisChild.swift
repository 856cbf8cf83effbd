#if Redis
    import Foundation
    import Larder
    import LarderRedis

    /// One machine of a test with several processes: it does what its input says, a line for each step, and answers
    /// with a line each.
    ///
    /// Arguments: the directory, the port of the server. Steps: `set KEY VALUE`, `get KEY`, `remove KEY`, `clear`,
    /// `clear TAG`, `tag KEY VALUE TAG`, `fetch KEY VALUE`, `loop COUNT`,
    /// `fill COUNT SIZE`, `wait`, `lose`, `quit`.
    @main
    struct RedisChild {
        static func main() async throws {
            let arguments = CommandLine.arguments
            let redis = RedisTier(configuration: .init(port: Int(arguments[2])!, prefix: "child"))
            var settings = Cache<String>.Configuration(remoteTier: redis)
            settings.remoteTierPolicy.timeout = .seconds(1)
            let cache = try Cache<String>(
                directory: URL(fileURLWithPath: arguments[1], isDirectory: true), configuration: settings)
            while let line = readLine() {
                let reply = try await answer(line.split(separator: " ").map(String.init), cache, redis)
                FileHandle.standardOutput.write(Data((reply + "\n").utf8))
                if line == "quit" { return }
            }
        }

        private static func answer(
            _ words: [String], _ cache: Cache<String>, _ redis: RedisTier
        ) async throws -> String {
            switch words[0] {
            case "set": try await cache.setValue(words[2], forKey: words[1])
            case "tag": try await cache.setValue(words[2], forKey: words[1], tags: [words[3]])
            case "get": return await cache.value(forKey: words[1]) ?? "-"
            case "fetch": return try await cache.value(forKey: words[1]) { words[2] }
            case "remove": try await cache.removeValue(forKey: words[1])
            case "clear" where words.count > 1: try await cache.removeAll(tagged: words[1])
            case "clear": try await cache.removeAll()
            case "fill":
                let value = String(repeating: "x", count: Int(words[2])!)
                for number in 0..<Int(words[1])! { try await cache.setValue(value, forKey: "fill\(number)") }
            case "loop":
                // Reads and writes as fast as it can.
                let begun = ContinuousClock.now
                for number in 0..<Int(words[1])! {
                    let key = "\(number % 100)"
                    if number % 10 == 0 { try await cache.setValue("v\(number)", forKey: key) }
                    _ = await cache.value(forKey: key)
                }
                return "\(Int((ContinuousClock.now - begun) / .milliseconds(1)))"
            case "wait":
                // Returns when the cache is connected, and everything is sent.
                let misses = cache.statistics.remote?.misses ?? 0
                while cache.statistics.remote?.waiting != 0 || cache.statistics.remote?.misses == misses {
                    _ = await cache.value(forKey: "probe")
                    try await Task.sleep(for: .milliseconds(5))
                }
            case "lose":
                // Returns when the server has kept a reply waiting for too long.
                while case .connected = redis.state { try await Task.sleep(for: .milliseconds(5)) }
            case "quit": try await cache.close()
            default: return "?"
            }
            return "ok"
        }
    }
#else
    /// Needs the trait `Redis`.
    @main
    struct RedisChild {
        static func main() {}
    }
#endif
