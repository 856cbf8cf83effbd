#if Redis
    import Foundation
    import LarderFiles
    import LarderRedis
    import LarderTestSupport
    import Testing

    /// Machines that are processes of their own.
    @Suite("Several processes on one Redis", .serialized, .timeLimit(.minutes(10)))
    struct RedisProcessTests {
        @Test("processes with a directory each agree", arguments: [2, 4])
        func directories(_ count: Int) async throws {
            let server = try RedisServer()
            let home = try Home()
            let machines = try (0..<count).map { try Machine(home.url.appendingPathComponent("\($0)"), server.port) }
            try await agree(machines, server, awaitsLoss: count == 2)
        }

        @Test("processes agree although what one of them receives is delayed, corrupted or cut off")
        func proxied() async throws {
            let server = try RedisServer()
            let home = try Home()
            let proxy = try Proxy(to: server.port)
            let through = try Machine(home.url.appendingPathComponent("through"), proxy.port)
            let direct = try Machine(home.url.appendingPathComponent("direct"), server.port)
            for machine in [through, direct] { try machine.expect("wait", "ok") }
            for (number, mode) in [Proxy.Mode.holding, .corrupting, .cutting].enumerated() {
                try through.expect("set a \(number)", "ok")
                await eventually { (try? direct.ask("get a")) == "\(number)" }
                proxy.set(mode)
                try through.expect("set a \(number)b", "ok")
                try through.expect("get a", "\(number)b")
                try direct.expect("set b \(number)", "ok")
                try through.expect("fetch c\(number) fetched", "fetched")
                proxy.set(.passing)
                try through.expect("wait", "ok")
                for machine in [through, direct] {
                    await eventually { (try? machine.ask("get a")) == "\(number)b" }
                    await eventually { (try? machine.ask("get b")) == "\(number)" }
                    await eventually { (try? machine.ask("get c\(number)")) == "fetched" }
                }
            }
            for machine in [through, direct] { try machine.expect("quit", "ok") }
        }

        @Test("two processes that share a directory hear of each change of a third")
        func shared() async throws {
            let server = try RedisServer()
            let home = try Home()
            let shared = home.url.appendingPathComponent("shared")
            let machines = [
                try Machine(shared, server.port), try Machine(shared, server.port),
                try Machine(home.url.appendingPathComponent("own"), server.port),
            ]
            try await agree(machines, server)
        }

        @Test(
            "processes on a server that evicts, or is full: nothing that was cleared returns, and no call fails",
            arguments: ["allkeys-lru", "noeviction"], [2, 4])
        func small(_ policy: String, _ count: Int) async throws {
            let server = try RedisServer(["--maxmemory", "3mb", "--maxmemory-policy", policy])
            let home = try Home()
            let shared = home.url.appendingPathComponent("shared")
            // The last two share a directory where there are four.
            let machines = try (0..<count).map { number in
                try Machine(number > 1 ? shared : home.url.appendingPathComponent("\(number)"), server.port)
            }
            for machine in machines { try machine.expect("wait", "ok") }
            for round in 0..<4 {
                let (one, two) = (machines[round % count], machines[(round + 1) % count])
                for machine in machines {
                    try machine.expect("tag k \(round) t", "ok")
                    try machine.expect("set l \(round)", "ok")
                }
                try two.expect("fill 8 200000", "ok")
                try one.expect("clear t", "ok")
                try one.expect("remove l", "ok")
                for machine in machines {
                    await eventually { (try? machine.ask("get k")) == "-" && (try? machine.ask("get l")) == "-" }
                }
                // What the server has forgotten of the clear must not matter.
                for machine in machines { try machine.expect("fill 8 200000", "ok") }
                for machine in machines {
                    try machine.expect("get k", "-")
                    try machine.expect("get l", "-")
                }
            }
            try server.command("CONFIG", "SET", "maxmemory", "0")
            try machines[0].expect("set l last", "ok")
            for machine in machines { await eventually { (try? machine.ask("get l")) == "last" } }
            for machine in machines { try machine.expect("quit", "ok") }
        }

        private func agree(
            _ machines: [Machine], _ server: RedisServer, awaitsLoss: Bool = false
        ) async throws {
            for machine in machines { try machine.expect("wait", "ok") }
            for (number, machine) in machines.enumerated() {
                try machine.expect("tag k \(number) t", "ok")
                for other in machines { await eventually { (try? other.ask("get k")) == "\(number)" } }
            }
            try machines[0].expect("clear t", "ok")
            for other in machines { await eventually { (try? other.ask("get k")) == "-" } }
            try machines[1].expect("fetch k fetched", "fetched")
            // A fetch does not wait until the server has its value.
            try machines[1].expect("wait", "ok")
            for other in machines { await eventually { (try? other.ask("fetch k other")) == "fetched" } }
            try machines[0].expect("remove k", "ok")
            for other in machines { await eventually { (try? other.ask("get k")) == "-" } }
            server.pause()
            try machines[0].expect("set a paused", "ok")
            try machines[0].expect("get a", "paused")
            // Paused for longer than a reply may take.
            if awaitsLoss { try machines[0].expect("lose", "ok") }
            try machines[0].expect("get a", "paused")
            server.resume()
            for machine in machines { try machine.expect("wait", "ok") }
            for other in machines { await eventually { (try? other.ask("get a")) == "paused" } }
            server.kill()
            try machines[1].expect("set a alone", "ok")
            try machines[1].expect("get a", "alone")
            try server.start()
            for machine in machines { try machine.expect("wait", "ok") }
            try machines[1].expect("set a again", "ok")
            for other in machines { await eventually { (try? other.ask("get a")) == "again" } }
            for machine in machines { try machine.expect("quit", "ok") }
        }
    }

    /// A directory that is removed with its owner.
    private final class Home {
        let url = FileManager.default.temporaryDirectory.appendingPathComponent("larder-machines-\(UUID())")

        init() throws {
            try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
        }

        deinit {
            try? FileManager.default.removeItem(at: url)
        }
    }

    /// A process with a cache.
    private final class Machine {
        private let process = Process()
        private let input = Pipe()
        private let output = Pipe()

        init(_ directory: URL, _ port: Int) throws {
            process.executableURL = try Self.program()
            process.arguments = [directory.path, "\(port)"]
            (process.standardInput, process.standardOutput) = (input, output)
            try process.start()
        }

        deinit {
            if process.isRunning { process.terminate() }
        }

        /// The program, next to the test bundle.
        private static func program() throws -> URL {
            let bundles = Bundle.allBundles.map(\.bundleURL).filter { $0.pathExtension == "xctest" }
            let places = bundles + [URL(fileURLWithPath: CommandLine.arguments[0])]
            let found = places.map { $0.deletingLastPathComponent().appendingPathComponent("RedisChild") }
                .first { FileManager.default.isExecutableFile(atPath: $0.path) }
            return try #require(found, "RedisChild is not built next to the tests")
        }

        /// Does a step and returns the answer.
        func ask(_ step: String) throws -> String {
            input.fileHandleForWriting.write(Data((step + "\n").utf8))
            var line = Data()
            while let byte = try output.fileHandleForReading.read(upToCount: 1), byte != Data("\n".utf8) {
                line += byte
            }
            return String(decoding: line, as: UTF8.self)
        }

        func expect(_ step: String, _ answer: String) throws {
            let found = try ask(step)
            #expect(found == answer, "\(step)")
        }
    }
#endif
