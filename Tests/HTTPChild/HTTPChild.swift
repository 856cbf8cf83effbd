import Foundation
import Larder
import LarderHTTP
import LarderHTTPTestSupport
import LarderTesting

/// Sends requests through a cache in an endless loop, and prints a line for each response once it is stored. Its parent,
/// a test, kills it. With `full` it tries a cache on a full disk instead, with `request` it sends one request, and ends.
///
/// usage: HTTPChild DIRECTORY ORIGIN SEED
///        HTTPChild DIRECTORY full
///        HTTPChild DIRECTORY request METHOD URL [FIELD ...]
@main
struct HTTPChild {
    struct Usage: Error {}

    static func main() async throws {
        let arguments = CommandLine.arguments
        if arguments.count == 3, arguments[2] == "full" {
            return try await FullDisk(directory: URL(fileURLWithPath: arguments[1])).run()
        }
        if arguments.count > 4, arguments[2] == "request" {
            return try await SingleRequest(directory: URL(fileURLWithPath: arguments[1])).run(arguments[3...])
        }
        guard arguments.count == 4, let seed = UInt64(arguments[3]) else {
            FileHandle.standardError.write(
                Data("usage: HTTPChild DIRECTORY (ORIGIN SEED | full | request METHOD URL [FIELD ...])\n".utf8))
            exit(64)
        }
        var configuration = HTTPCache.Configuration()
        configuration.disk.saveDelay = .milliseconds(5)
        configuration.spoolLimit = 20_000
        let cache = try HTTPCache(
            directory: URL(fileURLWithPath: arguments[1]), transport: SocketTransport(), configuration: configuration)
        var generator = SeededGenerator(seed: seed)
        while true {
            let path = "/\(Int.random(in: 0..<20, using: &generator))"
            var request = URLRequest(url: URL(string: arguments[2] + path)!)
            request.setValue(Bool.random(using: &generator) ? "de" : "en", forHTTPHeaderField: "Accept-Language")
            let mode: HTTPCacheMode = [.default, .reload, .noCache].randomElement(using: &generator)!
            let (_, response) = try await cache.data(for: request, mode: mode)
            guard response.cacheStatus.isStored, let tag = response.value(forHTTPHeaderField: "ETag") else { continue }
            let language = request.value(forHTTPHeaderField: "Accept-Language") ?? ""
            // One call writes the line: a kill leaves it whole or not at all.
            FileHandle.standardOutput.write(Data("\(path) \(language) \(tag)\n".utf8))
        }
    }
}
