import Foundation
import Larder
import LarderFiles
import LarderHTTP
import LarderHTTPTestSupport
import LarderTestSupport
import LarderTesting
import Testing

/// Real processes, real files, a real server, SIGKILL.
@Suite("Processes that store responses", .timeLimit(.minutes(10)))
struct HTTPProcessTests {
    /// Answers each request with another body, which the ETag describes: its number and its size.
    private static func server() throws -> SocketServer {
        let number = Lock(0)
        return try SocketServer { request in
            if request.fields.has("If-None-Match"), request.target.hasSuffix("0") {
                return Array("HTTP/1.1 304 Not\r\nCache-Control: max-age=600\r\n\r\n".utf8)
            }
            let now = number.withLock { number in
                number += 1
                return number
            }
            let size = now % 7 == 0 ? 30_000 : now % 100
            let language = request.fields.value(of: "Accept-Language") ?? ""
            let body = Self.body(request.target, language, now, size)
            let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nVary: Accept-Language\r\n"
            return Array("\(head)ETag: \"\(now).\(size)\"\r\nContent-Length: \(body.count)\r\n\r\n".utf8) + body
        }
    }

    private static func body(_ path: String, _ language: String, _ number: Int, _ size: Int) -> [UInt8] {
        Array("\(path) \(language) \(number) ".utf8)
            + (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ number) }
    }

    private func child(_ directory: URL, _ server: SocketServer, seed: UInt64) throws -> (Process, Pipe) {
        let process = Process()
        process.executableURL = try program("HTTPChild")
        process.arguments = [directory.path, String(server.url("/").absoluteString.dropLast()), "\(seed)"]
        // A kill leaves the file that a body is being spooled to.
        let temporary = directory.deletingLastPathComponent().path
        process.environment = ProcessInfo.processInfo.environment.merging(["TMPDIR": temporary]) { $1 }
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.start()
        return (process, pipe)
    }

    /// A program of the package, next to the test bundle.
    private func program(_ name: String) throws -> URL {
        let bundles = Bundle.allBundles.map(\.bundleURL).filter { $0.pathExtension == "xctest" }
        let places = bundles + [URL(fileURLWithPath: CommandLine.arguments[0])]
        let found = places.map { $0.deletingLastPathComponent().appendingPathComponent(name) }
            .first { FileManager.default.isExecutableFile(atPath: $0.path) }
        return try #require(found, "\(name) is not built next to the tests")
    }

    /// Kills a child and returns the rest of its output.
    private func kill(_ process: Process, _ pipe: Pipe) -> Data {
        Foundation.kill(process.processIdentifier, SIGKILL)
        let rest = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        #expect(process.terminationReason == .uncaughtSignal, "it ran until it was killed")
        return rest
    }

    private func output(_ pipe: Pipe, bytes: Int) -> Data {
        var output = Data()
        while output.count < bytes {
            let part = pipe.fileHandleForReading.availableData
            if part.isEmpty { break }
            output += part
        }
        return output
    }

    /// The number of the newest response that a process has reported as stored, by path and language.
    private func acknowledged(_ output: Data) -> [String: Int] {
        var numbers: [String: Int] = [:]
        for line in String(decoding: output, as: UTF8.self).split(separator: "\n") {
            let parts = line.split(separator: " ")
            guard parts.count == 3, let number = parts[2].dropFirst().split(separator: ".").first else { continue }
            numbers["\(parts[0]) \(parts[1])"] = Int(number)
        }
        return numbers
    }

    /// Reads everything, and checks it against what is known to be stored. `isExact`: nobody else has stored.
    private func check(
        _ directory: URL, _ server: SocketServer, _ numbers: [String: Int], isExact: Bool, _ context: Comment
    ) async throws {
        let cache = try HTTPCache(directory: directory, transport: SocketTransport())
        for path in (0..<20).map({ "/\($0)" }) {
            for language in ["de", "en"] {
                let request = Web.request("Accept-Language: \(language)", url: server.url(path))
                let (data, response) = try await cache.data(for: request, mode: .onlyIfCached)
                let known = numbers["\(path) \(language)"]
                guard response.status == 200 else {
                    #expect(known == nil, "\(path) \(language) is lost, \(context)")
                    continue
                }
                let tag = try #require(response.value(forHTTPHeaderField: "ETag"))
                let parts = tag.filter { $0 != "\"" }.split(separator: ".").compactMap { Int($0) }
                #expect([UInt8](data) == Self.body(path, language, parts[0], parts[1]), "\(path), \(context)")
                if isExact, let known { #expect(parts[0] >= known, "\(path) \(language) is old, \(context)") }
            }
        }
        let report = try cache.disk.verify()
        #expect(report.damaged.isEmpty && report.missing.isEmpty, "\(report), \(context)")
        #expect(cache.disk.statistics.corruptions == 0, context)
        try await cache.close()
    }

    @Test("a process that is killed loses no response that it has stored, and leaves none that is damaged")
    func killed() async throws {
        let home = try TemporaryDirectory()
        let directory = home.appending("web")
        let server = try Self.server()
        let seed = RunSeed.seed()
        print("kills of an HTTP cache: seed \(seed)")
        var generator = SeededGenerator(seed: seed)
        var numbers: [String: Int] = [:]
        var round = 0
        // Until every response was stored, whatever the numbers of bytes are.
        while round < (LongRun.isOn ? 15 : 5) || numbers.count < 40 && round < 100 {
            defer { round += 1 }
            let (process, pipe) = try child(directory, server, seed: seed &+ UInt64(round))
            var text = output(pipe, bytes: Int.random(in: 1...3000, using: &generator))
            text += kill(process, pipe)
            numbers.merge(acknowledged(text)) { $1 }
            try await check(directory, server, numbers, isExact: true, "round \(round), seed \(seed)")
        }
        #expect(numbers.count == 40)
    }

    @Test("two processes share a directory, and one goes on where the other was killed")
    func two() async throws {
        let home = try TemporaryDirectory()
        let directory = home.appending("web")
        let server = try Self.server()
        let (first, firstPipe) = try child(directory, server, seed: 1)
        let (second, secondPipe) = try child(directory, server, seed: 2)
        var text = output(firstPipe, bytes: 1000)
        text += kill(first, firstPipe)
        text += output(secondPipe, bytes: 3000)
        let numbers = acknowledged(text)
        // The second one is still storing.
        try await check(directory, server, numbers, isExact: false, "beside the second process")
        _ = kill(second, secondPipe)
        try await check(directory, server, numbers, isExact: false, "after the second process")
    }

    @Test("ten requests for each of a hundred URLs send a hundred over the wire", arguments: Transport.allCases)
    func storm(transport: Transport) async throws {
        let home = try TemporaryDirectory()
        let sent = Lock<[String: Int]>([:])
        let server = try SocketServer { request in
            sent.withLock { $0[request.target, default: 0] += 1 }
            let size = request.target.utf8.count
            let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: \(size)\r\n\r\n"
            return Array("\(head)\(request.target)".utf8)
        }
        let cache = try HTTPCache(directory: home.appending("web"), transport: transport.make())
        let wrong = try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<1_000 {
                let path = "/\(number % 100)"
                group.addTask { try await cache.data(from: server.url(path)).0 != Data(path.utf8) }
            }
            return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(wrong == 0)
        #expect(sent.withLock { $0.count } == 100 && sent.withLock { $0.values.allSatisfy { $0 == 1 } })
        let counts = cache.statistics
        #expect(counts.misses == 100 && counts.hits + counts.collapsed == 900)
        try await cache.close()
    }
}
