import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("Public values describe themselves")
struct DescriptionTests {
    private static let noon = Date(timeIntervalSince1970: 1_763_640_000)  // 2025-11-20 12:00:00 UTC
    private static let later = noon.addingTimeInterval(3600)

    private static func lookup<Value>(_ value: Value, lasting milliseconds: Int64, isStale: Bool = false)
        -> Lookup<Value>
    {
        let begun = Timestamp(noon)
        let life = MemoryLife(begun: begun, expires: begun.advanced(byMilliseconds: milliseconds))
        return Lookup(
            value, from: .memory, life: life, metadata: [:], at: begun.advanced(byMilliseconds: 3200), isStale: isStale)
    }

    private static let forever: Lookup<String> = {
        let life = MemoryLife(begun: Timestamp(noon), expires: Timestamp(milliseconds: Life.unlimited))
        return Lookup("Ann", from: .disk, life: life, metadata: ["etag": "x"], at: Timestamp(noon))
    }()

    private static let entry = CacheEntry(
        key: "42", namespace: "users", payloadSize: 5, allocatedSize: 4096, storedAt: noon, expiresAt: later,
        keptUntil: nil, tags: ["open"], lastUsedAt: noon, metadata: ["etag": "x", "date": "y"])

    private static let plainEntry = CacheEntry(
        key: "a\nb", namespace: nil, payloadSize: 1, allocatedSize: 4096, storedAt: noon, expiresAt: nil,
        keptUntil: nil, tags: [], lastUsedAt: noon, metadata: [:])

    private static let disk: CacheStatistics = {
        var disk = CacheStatistics()
        (disk.hits, disk.misses, disk.stores, disk.orphansDeleted) = (12, 1, 2, 1)
        disk.evictions.add(4, for: .count)
        disk.evictions.add(1, for: .freeSpace)
        return disk
    }()

    private static let segments: CacheStatistics.Segments = {
        var segments = CacheStatistics.Segments()
        (segments.count, segments.liveBytes, segments.deadBytes) = (2, 90, 10)
        (segments.cleaned, segments.movedBytes) = (1, 30)
        return segments
    }()

    private static let memory: MemoryStatistics = {
        var memory = MemoryStatistics()
        memory.hits = 1
        memory.note(.removed, times: 2)
        memory.note(.cost, times: 3)
        return memory
    }()

    private static let fetches = FetchStatistics(begun: 4, failed: 1, coalesced: 0, staleAnswers: 1)

    private static let policy = FetchPolicy.staleWhileRevalidate(for: .minutes(5)).staleIfError(for: .days(1))
        .keepStale(for: .hours(1)).softTimeout(.milliseconds(300)).hardTimeout(.seconds(20)).retryThrottle(.seconds(10))
        .eagerRefresh(atFraction: 0.8).jitter(0.1).outlivesCallers()

    private static let diskConfiguration: DiskCache.Configuration = {
        var configuration = DiskCache.Configuration()
        (configuration.countLimit, configuration.sizeLimit, configuration.minimumFreeSpace) = (10, 1000, 2000)
        (configuration.ageLimit, configuration.slidingExpiry, configuration.sweepInterval) = (.seconds(90), true, nil)
        configuration.eviction = .leastRecentlyUsed
        return configuration
    }()

    private static let memoryConfiguration: MemoryCache<String, Int>.Configuration = {
        var configuration = MemoryCache<String, Int>.Configuration()
        (configuration.countLimit, configuration.costLimit, configuration.ageLimit) = (10, 1000, .seconds(3600))
        (configuration.removesAllOnMemoryPressure, configuration.removesAllInBackground) = (false, false)
        (configuration.slidingExpiry, configuration.entryCostLimit) = (true, 100)
        return configuration
    }()

    private static let cacheConfiguration: Cache<Int>.Configuration = {
        var configuration = Cache<Int>.Configuration()
        configuration.memory = nil
        return configuration
    }()

    private static let verification: VerificationReport = {
        var report = VerificationReport()
        (report.checked, report.bytes, report.missing) = (2, 10, ["k"])
        return report
    }()

    private static let error = CacheError(code: .io, message: "Could not read.", path: "/cache", errno: 5)

    private static let version = RemoteVersion("019abcdef012003f00000000000000aa")!
    private static let remoteEntry = RemoteEntry(payload: Data([1, 2, 3]), record: Data(), checksum: 0)
    private static let remoteLife = RemoteLife(remaining: 60_000, keptStale: 3_600_000, age: 0)

    /// Each public value, and the text that it prints.
    private static let texts: [(value: any CustomStringConvertible & Sendable, text: String)] = [
        (lookup("Ann", lasting: 3_600_000), "Ann from memory, 3.2 s old, expires 2025-11-20T13:00:00Z"),
        (lookup(1, lasting: 1000, isStale: true), "1 from memory, 3.2 s old, expires 2025-11-20T12:00:01Z, stale"),
        (forever, #"Ann from disk, 0 ms old, never expires, metadata ["etag": "x"]"#),
        (
            lookup(1, lasting: 1000, isStale: true).stale(.late),
            "1 from memory, 3.2 s old, expires 2025-11-20T12:00:01Z, stale (late)"
        ),
        (StaleReason.failed, "failed"),
        (DiskCache.Limits(countLimit: 3, ageLimit: .seconds(90)), "countLimit: 3, ageLimit: 1 min 30 s"),
        (FetchResult<Int>.notModified, "not modified"),
        (FetchResult<Int>.absent(ttl: .minutes(1)), "absent, ttl 1 min"),
        (
            FetchResult.value("Ann", ttl: .hours(1), metadata: ["etag": "x"], mustRevalidate: true),
            #"Ann, ttl 1 h, metadata ["etag": "x"], must revalidate"#
        ),
        (CacheStatistics(), "0 hits, 0 misses"),
        (disk, "12 hits, 1 miss, 2 stored, 1 orphan deleted; evicted: 4 for count, 1 for free space"),
        (CacheStatistics.Evictions(), "none"),
        (disk.evictions, "4 for count, 1 for free space"),
        (MemoryView(MemoryCache<String, Int>()), "0 entries, cost 0"),
        (RemovalCause.memoryPressure, "memoryPressure"),
        (MemoryStatistics(), "0 hits, 0 misses"),
        (memory, "1 hit, 0 misses, 2 removed; evicted: 3 for cost"),
        (memory.evictions, "3 for cost"),
        (FetchStatistics(), "0 begun"),
        (fetches, "4 begun, 1 failed, 1 answered stale"),
        (TierStatistics(), "0 from memory, 0 from disk, 0 misses"),
        (RemoteStatistics(), "0 hits, 0 misses"),
        (
            RemoteStatistics(hits: 1, confirmations: 2, dropped: 3, waiting: 4),
            "1 hit, 0 misses, 2 confirmed, 3 dropped, 4 waiting"
        ),
        (RemoteTierPolicy(), "defaults"),
        (
            RemoteTierPolicy(name: "users", timeout: .milliseconds(50), fetchLease: .seconds(5)),
            #"name: "users", timeout: 50 ms, fetchLease: 5 s"#
        ),
        (RemoteTierError(.full, "No room."), "No room. [full]"),
        (version, "019abcdef012003f00000000000000aa"),
        (RemoteKey(namespace: "users", key: "42"), #""42" in namespace "users""#),
        (RemoteScope(namespace: "users", tag: "open"), #"tag "open" in namespace "users""#),
        (RemoteScope(), "the part without a namespace"),
        (remoteEntry, "3 bytes"),
        (remoteLife, "1 min left, then kept 1 h"),
        (RemoteRead(key: RemoteKey(key: "42"), known: version, sizeLimit: 1), "\"42\", known as \(version)"),
        (RemoteReading.Finding.removed(version), "removed by \(version)"),
        (RemoteReading(.missing), "missing"), (RemoteReading.Scopes.current, "not cleared since"),
        (
            RemoteWrite(
                key: RemoteKey(key: "42"), version: version, entry: remoteEntry, life: remoteLife),
            "\"42\" as \(version) with 3 bytes, 1 min left, then kept 1 h"
        ),
        (RemoteOutcome.superseded(version), "superseded by \(version)"),
        (RemoteTierState.disconnected(reason: "cut"), "disconnected: cut"),
        (RemoteNotice.changed(RemoteKey(key: "42"), version: nil), #"changed "42""#),
        (
            TierStatistics(memoryHits: 1, diskHits: 12, misses: 1, fetches: fetches, memory: memory, disk: disk),
            "1 from memory, 12 from disk, 1 miss; fetches (\(fetches)); memory (\(memory)); disk (\(disk))"
        ),
        (segments, "2 with 90 live and 10 dead bytes, 1 cleaned, 30 bytes moved"),
        (CacheEvent(.removed, keys: ["a", "b"], namespace: "users"), #"removed "a", "b" in namespace "users""#),
        (CacheEvent(.expired, keys: ["a", "b", "c", "d", "e"]), #"expired "a", "b", "c" and 2 more"#),
        (CacheEvent(.evicted, keys: ["a"], limit: .size), #"evicted "a" for size"#),
        (CacheEvent(.cleared, namespace: "users", count: 1), #"cleared 1 entry in namespace "users""#),
        (CacheEvent(.cleared, tag: "open"), #"cleared tagged "open""#),
        (CacheEvent(.reopened), "reopened"),
        (CacheEvent(.failed, keys: ["a"], error: error), #"failed "a": Could not read. [io, errno 5, /cache]"#),
        (error, "Could not read. [io, errno 5, /cache]"),
        (
            entry,
            #""42" in namespace "users", 5 bytes, stored 2025-11-20T12:00:00Z, expires 2025-11-20T13:00:00Z, "#
                + #"kept forever, tagged "open", metadata ["date": "y", "etag": "x"]"#
        ),
        (plainEntry, #""a b", 1 byte, stored 2025-11-20T12:00:00Z, never expires"#),
        (TimeToLive.default, "default"),
        (TimeToLive.forever, "forever"),
        (TimeToLive.seconds(0), "do not keep"),
        (TimeToLive.seconds(0.25), "250 ms"),
        (TimeToLive.seconds(59.99), "59.9 s"),
        (TimeToLive.seconds(90), "1 min 30 s"),
        (TimeToLive.minutes(200), "3 h 20 min"),
        (TimeToLive.days(1), "1 day"),
        (TimeToLive.hours(50), "2 days 2 h"),
        (TimeToLive.until(noon), "until 2025-11-20T12:00:00Z"),
        (TimeToLive.until(.distantPast.addingTimeInterval(-1e12)), "until before the year 1"),
        (TimeToLive.until(Date(timeIntervalSince1970: .infinity)), "until after the year 9999"),
        (FetchPolicy.cacheFirst, "cacheFirst"),
        (FetchPolicy.cacheOnly, "cacheOnly"),
        (FetchPolicy.reload.hardTimeout(.seconds(1.5)), "reload, hardTimeout: 1.5 s"),
        (
            FetchPolicy.cacheFirst.hardTimeout(.seconds(1), keepsLateResult: true).eagerRefresh(after: .seconds(90)),
            "cacheFirst, hardTimeout: 1 s, keepsLateResult, eagerRefresh: after 1 min 30 s"
        ),
        (DiskCache.FileProtection.completeUnlessOpen, "completeUnlessOpen"),
        (
            MemoryCache<String, String>.Entry(
                value: "Ann", cost: 3, storedAt: noon, age: .seconds(90), expiresAt: later, lastUsedAt: noon),
            "Ann, cost 3, stored 2025-11-20T12:00:00Z, 1 min 30 s old, expires 2025-11-20T13:00:00Z"
        ),
        (
            FetchResult.value("Ann", toDisk: false), "Ann, in memory alone"
        ),
        (
            policy,
            "cacheFirst, staleWhileRevalidate: 5 min, staleIfError: 1 day, keepStale: 1 h, "
                + "softTimeout: 300 ms, hardTimeout: 20 s, retryThrottle: 10 s, eagerRefresh: 0.8, jitter: 0.1, "
                + "outlivesCallers"
        ),
        (CacheLimit.freeSpace, "freeSpace"),
        (ValueSource.revalidated, "revalidated"),
        (SystemCondition.memoryPressure, "memoryPressure"),
        (ValueRelease.background, "background"),
        (EvictionPolicy.adaptive, "adaptive"),
        (Durability.powerSafe, "powerSafe"),
        (ManifestFormat.propertyList, "propertyList"),
        (CacheEvent.Kind.evicted, "evicted"),
        (CacheError.Code.noSpace, "noSpace"),
        (
            NamespaceUsage(namespace: "a", count: 1, payloadSize: 7, allocatedSize: 4096),
            #"namespace "a": 1 entry, 7 bytes, 4096 on disk"#
        ),
        (ImportReport.Reason.missingFile, "its file is missing"),
        (ImportReport.Skipped("a", .failed, detail: "EIO"), #""a": failed (EIO)"#),
        (
            ImportReport(imported: ["b"], importedBytes: 3, skipped: [.init("a", .expired)]),
            "imported 1 entries, 3 bytes; skipped 1\n  \"a\": expired"
        ),
        (
            verification,
            "checked 2 entries, 10 bytes; damaged 0, missing 1, unreadable 0, orphans 0\n"
                + "  \"k\": its file was gone, removed"
        ),
        (
            DiskCache.Configuration(),
            "defaultTTL: 1 day, saveDelay: 500 ms, sweepInterval: 1 min, durability: killSafe, "
                + "sharing: processes, manifestFormat: json"
        ),
        (
            diskConfiguration,
            "defaultTTL: 1 day, saveDelay: 500 ms, sweepInterval: none, durability: killSafe, "
                + "sharing: processes, manifestFormat: json, slidingExpiry, eviction: leastRecentlyUsed, countLimit: 10, sizeLimit: 1000, ageLimit: 1 min 30 s, minimumFreeSpace: 2000"
        ),
        (
            memoryConfiguration,
            "defaultTTL: 1 day, sweepInterval: 1 min, release: background, slidingExpiry, countLimit: 10, "
                + "costLimit: 1000, entryCostLimit: 100, ageLimit: 1 h, keeps values on memory pressure, keeps values in background"
        ),
        (DiskCache.Sharing.processes, "processes"),
        (DiskCache.Access.ownerOnly, "ownerOnly"),
        (DiskCache.Access.asOwner, "asOwner"),
        (DiskCache.Limits(), "none"),
        (DiskCache.Limits(countLimit: 10, ageLimit: .seconds(90)), "countLimit: 10, ageLimit: 1 min 30 s"),
        (cacheConfiguration, "defaultTTL: default; memory (none); disk (\(DiskCache.Configuration()))"),
    ]

    @Test("each prints the text pinned here")
    func pinned() {
        for (value, text) in Self.texts { #expect("\(value)" == text) }
    }

    @Test("no description shows implementation details: no Optional, no module name")
    func plain() {
        for (value, text) in Self.texts {
            let name = "\(type(of: value))"
            #expect(!"\(value)".contains("Optional("), "\(name)")
            #expect(!"\(value)".contains("Larder."), "\(name)")
            // The value and the text of an enclosing value that prints it.
            #expect(String(describing: [value]).contains(text) && String(reflecting: value) == text, "\(name)")
        }
    }

    @Test("a long value is truncated to one line")
    func long() {
        let text = "\(Self.lookup("line\n" + String(repeating: "x", count: 1_000_000), lasting: 3_600_000))"
        #expect(text.count < 200 && text.hasPrefix("line xxx") && text.contains("x… from memory"))
        #expect(!text.contains("\n"))
        let event = CacheEvent(.removed, keys: Array(repeating: String(repeating: "k", count: 1000), count: 1000))
        #expect(event.description.count < 350 && event.description.hasSuffix(" and 997 more"))
    }

    @Test("a debugger shows what a cache has, and where")
    func debug() async throws {
        let world = TestWorld()
        let cache = try world.cache(of: String.self)
        try await cache.setValue("four", forKey: "k")
        #expect(await cache.value(forKey: "k") == "four")
        let disk = try #require(cache.disk)
        #expect(String(reflecting: disk) == "DiskCache(/cache, 1 entry, 4 bytes)")
        #expect(String(reflecting: disk.namespace("n")) == #"DiskCache(/cache, namespace "n", 0 entries, 0 bytes)"#)
        let text = String(reflecting: cache)
        #expect(text.hasPrefix("Cache<String>(memory: 1 entry, cost 4; disk: /cache, 1 entry, 4 bytes; "))
        #expect(text.hasSuffix("\(cache.statistics))"))
        #expect(String(reflecting: LoadingCache(cache) { $0 }) == "Loading" + text)
        let memory = world.memoryCache(of: Int.self, String.self, configuration: .init(countLimit: 5))
        #expect(String(reflecting: memory) == "MemoryCache<Int, String>(0 entries, cost 0, countLimit: 5)")
        try await cache.close()
        #expect(String(reflecting: disk) == "DiskCache(/cache, closed)")
    }

    /// Every public structure of the library is in the list above, so a new one without a description is noticed.
    @Test("no public value is missing here")
    func complete() throws {
        let package = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let sources = package.appendingPathComponent("Sources/Larder")
        let files = FileManager.default.enumerator(atPath: sources.path)?.compactMap { $0 as? String } ?? []
        let described = Set(
            Self.texts.map { "\(type(of: $0.value))".prefix { $0 != "<" }.description }
                // Closures.
                + ["Coder", "CacheUpdates", "Iterator", "LoadingCache"])
        var count = 0
        for file in files where file.hasSuffix(".swift") {
            let text = try String(contentsOf: sources.appendingPathComponent(file), encoding: .utf8)
            for match in text.matches(of: /(?m)^ *public (?:struct|enum) (\w+)/) {
                count += 1
                #expect(described.contains("\(match.1)"), "\(match.1) in \(file)")
            }
        }
        #expect(count >= 28)
    }
}
