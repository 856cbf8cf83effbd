import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("The bytes that travel over a remote tier")
struct RemoteBytesTests {
    let machines = Machines()
    var server: TestRemoteServer { machines.server }
    private let question = RemoteRead(key: RemoteKey(key: "k"), sizeLimit: 1000)

    private func cache(_ machine: Int) throws -> Cache<String> {
        try machines.cache(machine) { $0.disk.inlineThreshold = 100 }
    }

    @Test("a value in a segment is sent without its place on this machine's disk")
    func placeless() async throws {
        let (one, two) = (try cache(0), try cache(1))
        try await one.setValue("v", forKey: "k", metadata: ["m": "1"], tags: ["t"])
        let place = try #require(one.disk?.store.index.entry(Key("k"))?.file.place)
        #expect(place.isInSegment)
        guard case .value(let entry, _, _) = try await server.connection().read(question).finding else {
            throw CancellationError()
        }
        #expect(String(decoding: entry.record, as: UTF8.self).contains("\"k\":\"k\""))
        #expect(!String(decoding: entry.record, as: UTF8.self).contains("\"w\":"))
        // The number of the segment, or none, must not be another one's.
        try await two.setValue("other", forKey: "first")
        #expect(await two.value(forKey: "k") == "v")
        try await two.setTimeToLive(.hours(9), forKey: "k")
        #expect(await two.lookup(forKey: "k")?.metadata == ["m": "1"])
    }

    @Test("a value whose record is from a later Larder is a miss, and so is the copy that it replaces")
    func laterRecord() async throws {
        let (one, two) = (try cache(0), try cache(1))
        try await one.setValue("old", forKey: "k")
        #expect(await two.value(forKey: "k") == "old")
        guard case .value(var entry, let version, let life) = try await server.connection().read(question).finding
        else { throw CancellationError() }
        let body = Data("{\"o\":\"link\",\"k\":\"k\"".utf8)
        let check = FixedHex.padded(body.withUnsafeBytes { XXH64.hash($0) }, 16)
        entry.record = body + Data(",\"c\":\"\(check)\"}".utf8)
        guard case .unknown? = entry.record.withUnsafeBytes({ RecordScanner.record(on: $0) }) else {
            throw CancellationError()
        }
        entry.checksum = RemoteEntry.checksum(of: entry.payload, entry.record)
        let later = version.moved(by: 1)
        let write = RemoteWrite(key: question.key, version: later, entry: entry, life: life)
        #expect(try await server.connection().write(write) == .done)
        machines.advance(by: .milliseconds(2))
        for cache in [one, two] {
            #expect(await cache.value(forKey: "k") == nil)
            #expect(cache.statistics.remote?.malformed == 1)
        }
        #expect(try await one.value(forKey: "k") { "new" } == "new")
        await one.sent()
        #expect(await two.value(forKey: "k") == "new")
    }

    @Test("keys and scopes are compared by their bytes")
    func bytes() {
        let (short, long) = ("\u{E9}", "e\u{301}")
        #expect(RemoteScope(tag: short) != RemoteScope(tag: long) && RemoteScope(tag: short) == RemoteScope(tag: short))
        #expect(RemoteScope(namespace: short) != RemoteScope(namespace: long))
        #expect(RemoteScope(namespace: "a") != RemoteScope(namespace: "a", tag: "a"))
        #expect(RemoteKey(key: short) != RemoteKey(key: long))
        #expect(Set([RemoteScope(tag: short), RemoteScope(tag: long), RemoteScope(tag: short)]).count == 2)
    }

    @Test("a place in a record that has come is ignored")
    func foreignPlace() async throws {
        let two = try cache(1)
        var sent = IndexEntry(
            keyText: "k", file: FileID(7), change: 7, stored: Timestamp(milliseconds: machines.time.clock.milliseconds),
            life: .forever, used: Timestamp(milliseconds: machines.time.clock.milliseconds), size: 1, checksum: 1,
            attachments: nil)
        sent.file.place = try #require(Place(segment: 5, offset: 64))
        let payload = Data("v".utf8)
        sent.checksum = payload.withUnsafeBytes { XXH64.hash($0) }
        var printer = RecordPrinter()
        printer.append(sent)
        let record = Data(printer.bytes)
        #expect(String(decoding: record, as: UTF8.self).contains("\"w\":"))
        let entry = RemoteEntry(
            payload: payload, record: record, checksum: RemoteEntry.checksum(of: payload, record))
        let outcome = try await server.connection().write(
            RemoteWrite(
                key: question.key,
                version: RemoteVersion(
                    milliseconds: machines.time.clock.milliseconds, counter: 0, node: "00000000000000aa"),
                entry: entry, life: RemoteLife(remaining: nil, keptStale: 0, age: 0)))
        #expect(outcome == .done)
        #expect(await two.lookup(forKey: "k")?.source == .remote)
        #expect(try #require(two.disk?.store.index.entry(Key("k"))).file.place.segment != 5)
        try await two.close()
        machines.restart(1)
        let again = try cache(1)
        #expect(await again.lookup(forKey: "k")?.source == .disk)
    }
}
