import Foundation
import Larder
import LarderFiles
import LarderHTTP
import LarderHTTPTestSupport
import LarderTestSupport
import LarderTesting
import Testing

@Suite("Stored responses are renewed in place, and handed out as files")
struct StorageTests {
    /// Notes the largest read from the cache's directory.
    private struct Observed: ForwardingFileSystem {
        let base = PosixFileSystem()
        let largest = Lock(0)
        let total = Lock(0)

        func read(
            _ file: borrowing FileDescriptor, at offset: Int, into buffer: UnsafeMutableRawBufferPointer
        ) throws(Errno) -> Int {
            largest.withLock { $0 = max($0, buffer.count) }
            total.withLock { $0 += buffer.count }
            return try base.read(file, at: offset, into: buffer)
        }
    }

    private static let body = Data((0..<5_000_000).map { UInt8(truncatingIfNeeded: $0 &* 7 ^ $0 >> 8) })

    private func names(_ web: Web) -> [String] { web.files.image.names(at: "/web/entries").sorted() }

    @Test("a 304 that changes no directive renews the entry without writing its body", arguments: ["", "Vary: Foo"])
    func renewal(vary: String) async throws {
        var web = try Web()
        let lines = ["Cache-Control: max-age=60", "ETag: \"a\"", vary.isEmpty ? "X: 1" : vary]
        web.server.reply { _ in Web.Reply(200, lines, HTTPBody(Data("body".utf8))) }
        _ = try await web.get("Foo: 1")
        let before = names(web)
        web.clock.advance(by: .seconds(60))
        web.server.reply { _ in Web.Reply(304, lines + ["Y: new"], HTTPBody()) }
        #expect(try await web.get("Foo: 1") == ("body", "Larder; fwd=stale; fwd-status=304; stored; ttl=60"))
        #expect(names(web) == before)
        try web.restart()
        let (body, response) = try await web.cache.data(for: Web.request("Foo: 1"))
        #expect(body == Data("body".utf8) && response.value(forHTTPHeaderField: "Y") == "new")
        #expect(response.cacheStatus.description == "Larder; hit; ttl=60")
        // With the index goes the update: the response is as stale as it was.
        try web.restart(index: false)
        _ = web.server.takeRequests()
        #expect(try await web.get("Foo: 1") == ("body", "Larder; fwd=stale; fwd-status=304; stored; ttl=60"))
        #expect(web.server.takeRequests().count == 1)
    }

    @Test(
        "a 304 that changes a directive writes the body again, so that the change survives the index",
        arguments: ["Cache-Control: max-age=60, must-revalidate", "Cache-Control: max-age=61"])
    func rewrite(line: String) async throws {
        var web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60", "ETag: \"a\"")
        _ = try await web.get()
        let before = names(web)
        web.clock.advance(by: .seconds(60))
        web.server.reply(304, line, "ETag: \"a\"", body: "")
        _ = try await web.get()
        #expect(!Set(names(web)).isSubset(of: before))
        try web.restart(index: false)
        let (_, response) = try await web.cache.data(from: Web.url)
        #expect(response.cacheStatus.isHit)
        #expect("Cache-Control: \(response.value(forHTTPHeaderField: "Cache-Control") ?? "")" == line)
    }

    @Test("an entry is not renewed once another process has replaced it")
    func overtaken() async throws {
        let door = Door()
        let web = try Web { $0.memory = nil }
        web.server.reply(200, "Cache-Control: max-age=60", "ETag: \"a\"", body: "old")
        _ = try await web.get()
        web.clock.advance(by: .seconds(60))
        web.server.reply { _ in
            await door.pass()
            return Web.Reply(304, "Cache-Control: max-age=60", "ETag: \"a\"", body: "")
        }
        let cache = web.cache
        let old = Task { try await cache.data(from: Web.url) }
        await door.waitForArrivals()
        let server = ScriptedTransport { _ in Web.Reply(200, "Cache-Control: max-age=60", "ETag: \"b\"", body: "new") }
        let other = try HTTPCache(
            directory: URL(fileURLWithPath: "/web"), transport: server, fileSystem: web.files.another(),
            clock: web.clock)
        _ = try await other.data(from: Web.url, mode: .reload)
        door.open()
        #expect(try await old.value.0 == Data("old".utf8))
        #expect(try await web.get() == ("new", "Larder; hit; ttl=60"))
    }

    @Test(
        "a 304 does not bring back what another process has invalidated meanwhile",
        arguments: ["max-age=60", "max-age=61"])
    func invalidatedElsewhere(directive: String) async throws {
        let door = Door()
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60", "ETag: \"a\"")
        _ = try await web.get()
        web.clock.advance(by: .seconds(60))
        web.server.reply { _ in
            await door.pass()
            return Web.Reply(304, "Cache-Control: \(directive)", "ETag: \"a\"", body: "")
        }
        let cache = web.cache
        let old = Task { try await cache.data(from: Web.url) }
        await door.waitForArrivals()
        let other = try web.another(ScriptedTransport { _ in Web.Reply(201) })
        _ = try await other.data(for: Web.request(method: "POST"))
        door.open()
        #expect(try await old.value.0 == Data("body".utf8))
        web.server.reply(200, "Cache-Control: max-age=60", body: "new")
        #expect(try await web.get() == ("new", "Larder; fwd=uri-miss; stored; ttl=60"))
    }

    @Test("caches in two namespaces of a directory have nothing in common, and leave the directory open")
    func namespaces() async throws {
        let folder = try TemporaryDirectory()
        let disk = try DiskCache(directory: folder.appending("disk"))
        let server = ScriptedTransport { _ in Web.Reply(200, "Cache-Control: max-age=86400") }
        let first = HTTPCache(disk: disk, namespace: "first", transport: server)
        let second = HTTPCache(disk: disk, namespace: "second", transport: server)
        try disk.setString("value", forKey: "http://example.com/page")
        _ = try await first.data(from: Web.url)
        #expect(try await first.data(from: Web.url).1.cacheStatus.isHit)
        #expect(try await second.data(from: Web.url).1.cacheStatus.forwarding == .uriMiss)
        try await first.removeAll()
        #expect(try await first.data(from: Web.url, mode: .onlyIfCached).1.status == 504)
        #expect(try await second.data(from: Web.url).1.cacheStatus.isHit)
        _ = try await second.data(for: Web.request(method: "POST"))
        #expect(try await second.data(from: Web.url, mode: .onlyIfCached).1.status == 504)
        try await first.close()
        #expect(disk.string(forKey: "http://example.com/page") == "value")
        try disk.close()
    }

    @Test("a large body replaces a small one in memory, and a small one a large one in files")
    func sizes() async throws {
        let folder = try TemporaryDirectory()
        let server = ScriptedTransport { _ in Web.Reply(200, "Cache-Control: max-age=60", body: "small") }
        var configuration = HTTPCache.Configuration()
        configuration.spoolLimit = 1000
        let cache = try HTTPCache(
            directory: folder.appending("web"), transport: server, configuration: configuration,
            fileSystem: PosixFileSystem(), clock: ManualClock())
        for _ in 1...2 { _ = try await cache.data(from: Web.url) }
        server.reply(200, "Cache-Control: max-age=60", body: String(repeating: "x", count: 5000))
        _ = try await cache.data(from: Web.url, mode: .reload)
        #expect(try await cache.data(from: Web.url).0.count == 5000)
        server.reply(200, "Cache-Control: max-age=60", body: "small")
        _ = try await cache.data(from: Web.url, mode: .reload)
        let (file, _) = try await cache.download(for: URLRequest(url: Web.url))
        #expect(try Data(contentsOf: file) == Data("small".utf8))
        try FileManager.default.removeItem(at: file)
        try await cache.close()
    }

    @Test("a large stored body is downloaded, cut, validated and replaced without being in memory as a whole")
    func largeFiles() async throws {
        let folder = try TemporaryDirectory()
        let body = Self.body
        let server = ScriptedTransport { request in
            let lines = ["Cache-Control: max-age=60", "ETag: \"a\"", "Content-Length: \(body.count)"]
            if request.value(forHTTPHeaderField: "If-None-Match") != nil { return Web.Reply(304, lines, HTTPBody()) }
            return Web.Reply(200, lines, HTTPBody(body))
        }
        let (files, clock) = (Observed(), ManualClock())
        let cache = try HTTPCache(
            directory: folder.appending("web"), transport: server, fileSystem: files, clock: clock)
        func download(_ lines: String..., status: String) async throws -> Data {
            var request = URLRequest(url: Web.url)
            for field in fields(lines) { request.addValue(field.value, forHTTPHeaderField: field.name) }
            let (url, response) = try await cache.download(for: request)
            #expect(response.cacheStatus.description == status)
            defer { try? FileManager.default.removeItem(at: url) }
            let attributes = try FileManager.default.attributesOfItem(atPath: url.path)
            #expect(attributes[.posixPermissions] as? Int == 0o600)
            return try Data(contentsOf: url)
        }
        #expect(try await download(status: "Larder; fwd=uri-miss; stored; ttl=60") == body)
        #expect(try await download(status: "Larder; hit; ttl=60") == body)
        let part = try await download("Range: bytes=100-3000000", status: "Larder; hit; ttl=60")
        #expect(part == body[100...3_000_000])
        clock.advance(by: .seconds(60))
        #expect(try await download(status: "Larder; fwd=stale; fwd-status=304; stored; ttl=60") == body)
        var head = URLRequest(url: Web.url)
        head.httpMethod = "HEAD"
        #expect(try await cache.data(for: head).1.cacheStatus.isHit)
        clock.advance(by: .seconds(60))
        #expect(try await cache.data(for: head).1.cacheStatus.isStored)
        #expect(files.largest.withLock { $0 } <= 1 << 20)
        #expect(try await cache.data(from: Web.url).0 == body)
        #expect(files.largest.withLock { $0 } >= body.count)
        try await cache.close()
    }

    @Test("a range of a large stored body reads what it names, once the whole has been verified")
    func ranges() async throws {
        let folder = try TemporaryDirectory()
        let body = Self.body
        let server = ScriptedTransport { _ in
            Web.Reply(200, ["Cache-Control: max-age=60", "Content-Length: \(body.count)"], HTTPBody(body))
        }
        let (files, directory) = (Observed(), folder.appending("web"))
        let cache = try HTTPCache(directory: directory, transport: server, fileSystem: files, clock: ManualClock())
        _ = try await cache.download(for: URLRequest(url: Web.url))
        func range(_ bytes: ClosedRange<Int>) async throws -> (data: Data, isHit: Bool, read: Int) {
            let before = files.total.withLock { $0 }
            let request = Web.request("Range: bytes=\(bytes.lowerBound)-\(bytes.upperBound)")
            let (data, response) = try await cache.data(for: request)
            return (data, response.cacheStatus.isHit, files.total.withLock { $0 } - before)
        }
        let first = try await range(1_000_000...1_065_535)
        #expect(first.isHit && first.data == body[1_000_000...1_065_535] && first.read >= body.count)
        for start in [0, 2_000_000, body.count - 65_536] {
            let part = try await range(start...start + 65_535)
            #expect(part.isHit && part.data == body[start...start + 65_535] && part.read < 70_000)
        }
        #expect(files.largest.withLock { $0 } <= 1 << 20)
        // Another process finds it damaged, and asks the server.
        try await cache.close()
        try tamper(directory) { file in
            try file.seek(toOffset: 100)
            try file.write(contentsOf: [0, 0, 0, 0])
        }
        let again = try HTTPCache(directory: directory, transport: server, fileSystem: files, clock: ManualClock())
        let (data, response) = try await again.data(for: Web.request("Range: bytes=0-9"))
        #expect(!response.cacheStatus.isHit && (data == body || data == body[0...9]))
        try await again.close()
    }

    /// Writes into the files of a cache behind its back.
    private func tamper(_ directory: URL, _ change: (FileHandle) throws -> Void) throws {
        let entries = directory.appendingPathComponent("entries")
        for name in try FileManager.default.contentsOfDirectory(atPath: entries.path) where name != "segments" {
            let file = try FileHandle(forUpdating: entries.appendingPathComponent(name))
            try change(file)
            try file.close()
        }
    }

    private static func overwrite(_ file: FileHandle) throws {
        try file.seek(toOffset: 2_000_000)
        try file.write(contentsOf: Data(repeating: 0xAA, count: 100_000))
    }

    @Test("no range answers from a body that was damaged after another one", arguments: [true, false])
    func damagedLater(isCut: Bool) async throws {
        let folder = try TemporaryDirectory()
        let body = Self.body
        let server = ScriptedTransport { _ in
            Web.Reply(200, ["Cache-Control: max-age=60", "Content-Length: \(body.count)"], HTTPBody(body))
        }
        let directory = folder.appending("web")
        let cache = try HTTPCache(
            directory: directory, transport: server, fileSystem: PosixFileSystem(), clock: ManualClock())
        _ = try await cache.data(for: URLRequest(url: Web.url))
        let first = try await cache.data(for: Web.request("Range: bytes=1000000-1000009"))
        #expect(first.1.cacheStatus.isHit && first.0 == body[1_000_000...1_000_009])
        try tamper(directory) { isCut ? try $0.truncate(atOffset: 500_000) : try Self.overwrite($0) }
        let (data, response) = try await cache.data(for: Web.request("Range: bytes=2000100-2050099"))
        #expect(data == body || data == body[2_000_100...2_050_099], "\(response.cacheStatus)")
        try await cache.close()
    }

    @Test("damage that came after a range is not stored again as valid")
    func laundered() async throws {
        let folder = try TemporaryDirectory()
        let body = Self.body
        let server = ScriptedTransport { request in
            if request.value(forHTTPHeaderField: "If-None-Match") != nil {
                return Web.Reply(304, ["Cache-Control: max-age=6000, must-revalidate", "ETag: \"a\""], HTTPBody())
            }
            return Web.Reply(
                200, ["Cache-Control: max-age=60", "ETag: \"a\"", "Content-Length: \(body.count)"], HTTPBody(body))
        }
        let clock = ManualClock()
        let directory = folder.appending("web")
        let cache = try HTTPCache(directory: directory, transport: server, fileSystem: PosixFileSystem(), clock: clock)
        _ = try await cache.data(for: URLRequest(url: Web.url))
        _ = try await cache.data(for: Web.request("Range: bytes=0-9"))
        try tamper(directory) { try Self.overwrite($0) }
        clock.advance(by: .seconds(60))
        _ = try await cache.data(for: Web.request("Range: bytes=0-9"))
        let (data, response) = try await cache.data(for: URLRequest(url: Web.url))
        let isSame = data == body
        #expect(isSame, "\(response.cacheStatus)")
        try await cache.close()
    }

    @Test("fields are kept as they are, whatever their characters combine with")
    func combiningCharacters() async throws {
        var web = try Web { $0.memory = nil }
        web.server.reply { _ in
            var reply = Web.Reply(200, "Cache-Control: max-age=60")
            reply.fields.append(HTTPField("X-Accent", "\u{301}a: b"))
            reply.fields.append(HTTPField("X-Joiner", "\u{200D}\u{FE0F}"))
            return reply
        }
        _ = try await web.get()
        try web.restart()
        let (_, response) = try await web.cache.data(from: Web.url)
        #expect(response.cacheStatus.isHit && response.value(forHTTPHeaderField: "X-Accent") == "\u{301}a: b")
        #expect(response.value(forHTTPHeaderField: "X-Joiner") == "\u{200D}\u{FE0F}")
    }

    @Test("a response that is kept for no time is not called stored")
    func noTime() async throws {
        let web = try Web {
            $0.keepStale = .zero
            $0.staleIfUnreachable = .zero
        }
        web.server.reply(200, "Cache-Control: max-age=0", "ETag: \"a\"")
        #expect(try await web.get().1 == "Larder; fwd=uri-miss")
        #expect(web.cache.statistics.stores == 0)
    }

    @Test("no-store of a request leaves the stored response alone, unless the server takes it back")
    func requestWithoutStoring() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60", "ETag: \"a\"")
        _ = try await web.get()
        web.clock.advance(by: .seconds(60))
        web.server.reply(304, "Cache-Control: max-age=60", "ETag: \"a\"", body: "")
        #expect(try await web.get("Cache-Control: no-store").1 == "Larder; fwd=stale; fwd-status=304; ttl=60")
        #expect(try await web.get().1 == "Larder; fwd=stale; fwd-status=304; stored; ttl=60")
        web.clock.advance(by: .seconds(60))
        web.server.reply(304, "Cache-Control: no-store", "ETag: \"a\"", body: "")
        _ = try await web.get("Cache-Control: no-store")
        web.server.reply(200, "Cache-Control: max-age=60")
        #expect(try await web.get().1 == "Larder; fwd=uri-miss; stored; ttl=60")
    }
}
