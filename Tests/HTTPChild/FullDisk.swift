import Foundation
import Larder
import LarderHTTP
import LarderHTTPTestSupport

/// A cache on a disk of a few MiB, and a server with more than that.
struct FullDisk {
    struct Failure: Error {
        let text: String
    }

    let directory: URL
    private static let count = 200

    func run() async throws {
        let server = try SocketServer { request in
            let body = Self.body(of: request.target)
            return Array("HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: \(body.count)\r\n\r\n".utf8)
                + body
        }
        var configuration = HTTPCache.Configuration()
        configuration.memory = nil
        configuration.disk.sizeLimit = nil
        // Every second body is copied from a file.
        configuration.spoolLimit = 60_000
        let cache = try HTTPCache(directory: directory, transport: SocketTransport(), configuration: configuration)
        var (stored, refused) = (0, 0)
        for number in 0..<Self.count {
            let (data, response) = try await cache.data(from: server.url("/\(number)"))
            try expect([UInt8](data) == Self.body(of: "/\(number)"), "answer \(number) is wrong")
            if response.cacheStatus.isStored { stored += 1 } else { refused += 1 }
        }
        try expect(stored > 0 && refused > 0, "stored \(stored), refused \(refused): the disk is not full")
        let report = try cache.disk.verify()
        try expect(report.damaged.isEmpty && report.missing.isEmpty, "\(report)")
        var hits = 0
        for number in 0..<Self.count {
            let (data, response) = try await cache.data(from: server.url("/\(number)"), mode: .onlyIfCached)
            if response.status == 504 { continue }
            hits += 1
            try expect([UInt8](data) == Self.body(of: "/\(number)"), "stored answer \(number) is wrong")
        }
        try expect(hits > 0, "nothing is left of \(stored)")
        try await cache.removeAll()
        try cache.disk.flush()
        let (_, again) = try await cache.data(from: server.url("/0"))
        try expect(again.cacheStatus.isStored, "nothing is stored although there is room again")
        try await cache.close()
        print("a full disk: \(Self.count) right answers, \(stored) stored, \(refused) not, \(hits) hits")
    }

    private func expect(_ isRight: Bool, _ text: @autoclosure () -> String) throws {
        if !isRight { throw Failure(text: text()) }
    }

    private static func body(of target: String) -> [UInt8] {
        let number = Int(target.dropFirst()) ?? 0
        return Array(repeating: UInt8(truncatingIfNeeded: number), count: number % 2 == 0 ? 50_000 : 70_000)
    }
}
