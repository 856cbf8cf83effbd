import Foundation
import Larder
import LarderFiles
import LarderHTTP
import LarderHTTPTestSupport
import LarderTestSupport
import LarderTesting
import Testing

@Suite("A disk that fails costs answers from the cache, never answers, and undoes nothing")
struct FailingDiskTests {
    /// Lets the n-th call fail for n = 1, 2, ... until there is no n-th call.
    private func forEachCall(
        _ body: (_ number: Int, _ web: Web, _ fail: () -> Void) async throws -> Void
    ) async throws {
        var number = 0
        var isReached = true
        while isReached {
            number += 1
            let (call, reached) = (number, Flag())
            let web = try Web { $0.memory = nil }
            web.server.reply(200, "Cache-Control: max-age=600", "ETag: \"a\"", body: "old")
            _ = try await web.get()
            try await body(number, web) {
                web.files.inject { current, _ in
                    guard current == call else { return nil }
                    reached.set()
                    return .fail(.io)
                }
            }
            isReached = reached.isSet
        }
        #expect(number > 3)
    }

    @Test("an invalidation holds although a call fails")
    func invalidation() async throws {
        try await forEachCall { number, web, fail in
            web.server.reply(201)
            fail()
            _ = try await web.cache.data(for: Web.request(method: "POST"))
            web.files.inject { _, _ in nil }
            web.server.reply(200, "Cache-Control: max-age=600", body: "new")
            #expect(try await web.get().0 == "new", "call \(number)")
            #expect(try await web.get() == ("new", "Larder; hit; ttl=600"), "call \(number)")
            // What could not be removed has been removed since, for every process.
            var later = web
            try later.restart(index: false)
            #expect(try await later.get().0 == "new", "call \(number)")
        }
    }

    @Test("the removal of a URL's responses holds, and says that a call has failed")
    func removal() async throws {
        var failures = 0
        for call in 1...6 {
            let web = try Web { $0.memory = nil }
            web.server.reply(200, "Cache-Control: max-age=600", body: "old")
            _ = try await web.get()
            web.files.inject { current, _ in current == call ? .fail(.io) : nil }
            do {
                try await web.cache.removeResponses(for: Web.url)
            } catch {
                failures += 1
            }
            web.files.inject { _, _ in nil }
            #expect(try await web.get(mode: .onlyIfCached).1 == "Larder; detail=only-if-cached", "call \(call)")
        }
        #expect(failures > 0)
    }

    @Test("an answer that takes a response back removes it although a call fails", arguments: ["no-store", "404"])
    func takenBack(kind: String) async throws {
        try await forEachCall { number, web, fail in
            if kind == "404" {
                web.server.reply(404, body: "gone")
            } else {
                web.server.reply(304, "Cache-Control: no-store", "ETag: \"a\"", body: "")
            }
            fail()
            _ = try await web.get(mode: .noCache)
            web.files.inject { _, _ in nil }
            web.server.reply(200, "Cache-Control: max-age=600", body: "new")
            #expect(try await web.get().0 == "new", "call \(number)")
        }
    }

    @Test("while every call fails, an invalidated response is no answer")
    func lasting() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=600", body: "old")
        _ = try await web.get()
        web.files.inject { _, _ in .fail(.io) }
        web.server.reply(201)
        _ = try await web.cache.data(for: Web.request(method: "POST"))
        web.server.reply(200, "Cache-Control: max-age=600", body: "new")
        #expect(try await web.get().0 == "new")
        #expect(try await web.get().0 == "new")
        web.files.inject { _, _ in nil }
        #expect(try await web.get().0 == "new")
        #expect(try await web.get().1 == "Larder; hit; ttl=600")
    }

    @Test("more than a thousand failed invalidations stop the cache from answering, until it is emptied")
    func tooMany() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=600", body: "old")
        _ = try await web.get()
        web.files.inject { _, _ in .fail(.io) }
        for number in 0...1000 {
            try? await web.cache.removeResponses(for: URL(string: "http://example.com/\(number)")!)
        }
        web.files.inject { _, _ in nil }
        #expect(try await web.get().1 == "Larder; fwd=uri-miss")
        try await web.cache.removeAll()
        _ = try await web.get()
        #expect(try await web.get().1 == "Larder; hit; ttl=600")
    }

    @Test("responses that a full disk refuses are in memory, with their variants, and are validated there")
    func memory() async throws {
        var web = try Web()
        web.files.limitFreeSpace(to: 0)
        web.server.reply { request in
            let value = request.value(forHTTPHeaderField: "Foo") ?? ""
            let lines = ["Cache-Control: max-age=60", "ETag: \"a\"", "Vary: Foo"]
            let isKnown = request.value(forHTTPHeaderField: "If-None-Match") != nil
            return Web.Reply(isKnown ? 304 : 200, lines, HTTPBody(Data((isKnown ? "" : value).utf8)))
        }
        #expect(try await web.get("Foo: 1") == ("1", "Larder; fwd=uri-miss; stored; ttl=60"))
        #expect(try await web.get("Foo: 2") == ("2", "Larder; fwd=vary-miss; stored; ttl=60"))
        #expect(try await web.get("Foo: 1") == ("1", "Larder; hit; ttl=60"))
        let head = try await web.cache.data(for: Web.request("Foo: 2", method: "HEAD")).1
        #expect(head.cacheStatus.isHit)
        web.clock.advance(by: .seconds(60))
        #expect(try await web.get("Foo: 1") == ("1", "Larder; fwd=stale; fwd-status=304; stored; ttl=60"))
        #expect(try await web.get("Foo: 1") == ("1", "Larder; hit; ttl=60"))
        _ = try await web.cache.data(for: Web.request(method: "POST"))
        #expect(try await web.get("Foo: 1").1 == "Larder; fwd=uri-miss; stored; ttl=60")
        web.files.limitFreeSpace(to: nil)
        web.clock.advance(by: .seconds(60))
        #expect(try await web.get("Foo: 1") == ("1", "Larder; fwd=stale; fwd-status=304; stored; ttl=60"))
        // There is room again, so that one is on the disk.
        try web.restart()
        #expect(try await web.get("Foo: 1") == ("1", "Larder; hit; ttl=60"))
    }

    @Test("a response on a disk that has become full is validated in memory")
    func validatedInMemory() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60", "ETag: \"a\"")
        _ = try await web.get()
        web.files.limitFreeSpace(to: 0)
        web.clock.advance(by: .seconds(60))
        for line in ["Cache-Control: max-age=60", "Cache-Control: max-age=30"] {
            web.server.reply(304, line, "ETag: \"a\"", body: "")
            _ = try await web.get(mode: .noCache)
            #expect(try await web.get().1.contains("hit"), "\(line)")
        }
        web.clock.advance(by: .seconds(31))
        web.server.reply(200, "Cache-Control: no-store", body: "new")
        #expect(try await web.get().0 == "new")
        #expect(try await web.get().0 == "new")
    }

    @Test("a reload whose answer cannot be stored replaces what is stored", arguments: [true, false])
    func reload(hasMemory: Bool) async throws {
        let web = try Web { if !hasMemory { $0.memory = nil } }
        web.server.reply(200, "Cache-Control: max-age=600", body: "old")
        _ = try await web.get()
        web.files.limitFreeSpace(to: 0)
        // Evicting the old one does not make enough room.
        let new = String(repeating: "new", count: 100_000)
        web.server.reply(200, "Cache-Control: max-age=600", body: new)
        #expect(try await web.get(mode: .reload).0 == new)
        let (text, status) = try await web.get()
        #expect(text == new && status.contains(hasMemory ? "hit" : "fwd=uri-miss"))
    }

    @Test("a response in memory alone hides none that the disk neither replaces nor removes")
    func hidden() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=600", body: "old")
        _ = try await web.get()
        web.files.inject { _, _ in .fail(.io) }
        web.server.reply(200, "Cache-Control: max-age=600", body: "new")
        #expect(try await web.get(mode: .reload).0 == "new")
        web.files.inject { _, _ in nil }
        #expect(try await web.get().0 == "new")
        #expect(try await web.get() == ("new", "Larder; hit; ttl=600"))
    }

    @Test("after closing, requests go to their servers, and nothing is kept")
    func closed() async throws {
        let web = try Web()
        web.server.reply(200, "Cache-Control: max-age=60")
        _ = try await web.get()
        try await web.cache.close()
        for _ in 1...2 { #expect(try await web.get().1 == "Larder; fwd=uri-miss") }
        web.server.reply(201)
        #expect(try await web.cache.data(for: Web.request(method: "POST")).1.status == 201)
    }

    /// The disk of temporary files: missing, or full after some bytes.
    private struct TemporaryDisk: ForwardingFileSystem {
        let base = PosixFileSystem()
        let isMissing: Bool
        let room = Lock(3000)

        func openDirectory(path: String, creation: DirectoryCreation) throws(Errno) -> FileDescriptor {
            if isMissing { throw .noEntry }
            return try base.openDirectory(path: path, creation: creation)
        }

        func write(
            _ head: UnsafeRawBufferPointer, _ tail: UnsafeRawBufferPointer, to file: borrowing FileDescriptor,
            at offset: Int
        ) throws(Errno) {
            let isFull = room.withLock { room in
                room -= head.count + tail.count
                return room < 0
            }
            if isFull { throw .noSpace }
            try base.write(head, tail, to: file, at: offset)
        }
    }

    @Test("a large body stays in memory where no temporary file can be written", arguments: [true, false])
    func temporaryFiles(isMissing: Bool) async throws {
        let folder = try TemporaryDirectory()
        let body = Data((0..<5000).map { UInt8(truncatingIfNeeded: $0 &* 7) })
        let server = ScriptedTransport { _ in Web.Reply(200, "Cache-Control: max-age=1", body: "old") }
        var configuration = HTTPCache.Configuration()
        configuration.spoolLimit = 1000
        let clock = ManualClock()
        let cache = try HTTPCache(
            directory: folder.appending("web"), transport: server, configuration: configuration,
            fileSystem: PosixFileSystem(), temporaryFiles: TemporaryDisk(isMissing: isMissing), clock: clock)
        _ = try await cache.data(from: Web.url)
        clock.advance(by: .seconds(100))
        server.reply { _ in
            let parts = AsyncStream<Data> { stream in
                for start in stride(from: 0, to: body.count, by: 700) {
                    stream.yield(body[start..<min(start + 700, body.count)])
                }
                stream.finish()
            }
            return Web.Reply(200, ["Cache-Control: max-age=60"], HTTPBody(parts))
        }
        // The server can be reached: the stale response is not the answer.
        let (data, response) = try await cache.data(from: Web.url)
        #expect(data == body && response.cacheStatus.description == "Larder; fwd=stale; stored; ttl=60")
        #expect(try await cache.data(from: Web.url).0 == body)
        let other = URL(string: "http://example.com/other")!
        let error = await #expect(throws: HTTPCacheError.self) {
            try await cache.download(for: URLRequest(url: other))
        }
        #expect(error?.code == .temporaryFile)
        try await cache.close()
    }

    @Test("a download that cannot be written does not fail the requests that have waited for it")
    func followers() async throws {
        let folder = try TemporaryDirectory()
        let door = Door()
        let server = ScriptedTransport { _ in
            await door.pass()
            return Web.Reply(200, "Cache-Control: max-age=60", body: String(repeating: "x", count: 5000))
        }
        var configuration = HTTPCache.Configuration()
        configuration.spoolLimit = 1000
        let cache = try HTTPCache(
            directory: folder.appending("web"), transport: server, configuration: configuration,
            fileSystem: PosixFileSystem(), temporaryFiles: TemporaryDisk(isMissing: true), clock: ManualClock())
        let leader = Task { try await cache.download(for: URLRequest(url: Web.url)) }
        await door.waitForArrivals()
        let follower = Task { try await cache.data(from: Web.url) }
        await eventually { cache.waitingRequests == 1 }
        door.open()
        await #expect(throws: HTTPCacheError.self) { try await leader.value }
        #expect(try await follower.value.0.count == 5000)
        try await cache.close()
    }
}
