#if Redis
    import Foundation
    import LarderTestSupport
    import Testing

    /// A server on a free port of the own machine, with a directory of its own; ended with its owner.
    final class RedisServer {
        let port: Int
        private let home: URL
        private let arguments: [String]
        private var process: Process?

        init(_ arguments: [String] = []) throws {
            home = FileManager.default.temporaryDirectory.appendingPathComponent("larder-redis-\(UUID())")
            try FileManager.default.createDirectory(at: home, withIntermediateDirectories: true)
            port = try Self.freePort()
            self.arguments = arguments
            try start()
        }

        deinit {
            process?.terminationHandler = nil
            if let process, process.isRunning {
                Foundation.kill(process.processIdentifier, SIGKILL)
                process.waitUntilExit()
            }
            try? FileManager.default.removeItem(at: home)
        }

        /// The program, Redis or Valkey.
        static let program: String? = {
            let wanted = ProcessInfo.processInfo.environment["LARDER_REDIS_SERVER"].map { [$0] } ?? []
            let known = ["/usr/bin/redis-server", "/usr/local/bin/redis-server", "/opt/homebrew/bin/redis-server"]
            return (wanted + known).first { FileManager.default.isExecutableFile(atPath: $0) }
        }()

        static func freePort() throws -> Int {
            let file = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            defer { close(file) }
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = inet_addr("127.0.0.1")
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let isBound = withUnsafeMutablePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(file, $0, length) == 0 && getsockname(file, $0, &length) == 0
                }
            }
            try #require(isBound)
            return Int(UInt16(bigEndian: address.sin_port))
        }

        func start() throws {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: try #require(Self.program))
            process.arguments =
                ["--port", "\(port)", "--bind", "127.0.0.1", "--save", "", "--dir", home.path, "--daemonize", "no"]
                + arguments
            process.standardOutput = FileHandle.nullDevice
            process.standardError = FileHandle.nullDevice
            try process.start()
            self.process = process
        }

        /// Runs a command of an administrator.
        func command(_ words: String..., database: Int = 0) throws { try command(words, database: database) }

        func command(_ words: [String], database: Int = 0) throws {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/redis-cli")
            process.arguments = ["-p", "\(port)", "-n", "\(database)"] + words
            process.standardOutput = FileHandle.nullDevice
            try process.start()
            process.waitUntilExit()
            try #require(process.terminationStatus == 0)
        }

        /// Ends it at once; everything is lost.
        func kill() {
            guard let process else { return }
            Foundation.kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
        }

        func pause() { Foundation.kill(process?.processIdentifier ?? 0, SIGSTOP) }
        func resume() { Foundation.kill(process?.processIdentifier ?? 0, SIGCONT) }
    }
#endif
