#if Redis
    import CHiredis
    import Foundation

    /// A Redis server of the benchmark's own, on a socket in its directory; it ends with its owner, or with the program.
    final class RedisServer {
        private let process = Process()
        private let input = Pipe()

        static let program = ["/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"].map { $0 + "/redis-server" }
            .first { FileManager.default.isExecutableFile(atPath: $0) }

        /// The socket in a scenario's folder.
        static func socket(_ folder: URL) -> String { folder.appendingPathComponent("redis.sock").path }

        init(_ folder: Folder) throws {
            guard let program = Self.program else { throw BenchFailure("there is no redis-server") }
            process.executableURL = URL(fileURLWithPath: "/bin/sh")
            // The input of the shell ends with this program, however that ends.
            let script = #""$0" "$@" >/dev/null & server=$!; read -r _; kill -KILL "$server""#
            process.arguments = [
                "-c", script, program, "--port", "0", "--unixsocket", Self.socket(folder.url), "--save", "", "--dir",
                folder.floor.path,
            ]
            process.standardInput = input
            guard fcntl(input.fileHandleForWriting.fileDescriptor, F_SETFD, FD_CLOEXEC) == 0 else {
                throw BenchFailure("fcntl has failed")
            }
            try process.run()
        }

        func close() throws {
            try input.fileHandleForWriting.close()
            process.waitUntilExit()
        }
    }

    /// Commands over hiredis alone, one thread and one connection.
    final class BareRedis {
        private let context: UnsafeMutablePointer<redisContext>

        /// Waits for the server.
        init(_ folder: Folder) throws {
            let clock = ContinuousClock()
            let end = clock.now + .seconds(10)
            while true {
                guard let context = redisConnectUnix(RedisServer.socket(folder.url)) else {
                    throw BenchFailure("there is no memory for a connection")
                }
                if context.pointee.err == 0 {
                    self.context = context
                    return
                }
                redisFree(context)
                if clock.now > end { throw BenchFailure("redis-server does not answer") }
                usleep(1_000)
            }
        }

        deinit {
            redisFree(context)
        }

        /// Sends commands in one piece, and waits for all replies. Returns the number of bytes of the last.
        @discardableResult
        func run(_ commands: [[[UInt8]]]) -> Int {
            for command in commands { append(command) }
            var size = 0
            for _ in commands {
                var reply: UnsafeMutableRawPointer?
                precondition(redisGetReply(context, &reply) == REDIS_OK)
                guard let reply else { return 0 }
                size = Int(reply.assumingMemoryBound(to: redisReply.self).pointee.len)
                freeReplyObject(reply)
            }
            return size
        }

        private func append(_ command: [[UInt8]]) {
            let joined = command.joined().map { CChar(bitPattern: $0) } + [0]
            joined.withUnsafeBufferPointer { bytes in
                var offset = 0
                var pointers: [UnsafePointer<CChar>?] = []
                for part in command {
                    pointers.append(bytes.baseAddress! + offset)
                    offset += part.count
                }
                redisAppendCommandArgv(context, Int32(command.count), &pointers, command.map(\.count))
            }
        }
    }
#endif
