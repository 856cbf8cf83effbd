import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Statistics as differences and as metrics")
struct MetricsTests {
    /// Gives every count another value: `first`, `first + 1`, and so on. All are whole numbers of eight bytes.
    private func fill<Statistics>(_ statistics: inout Statistics, from first: Int) -> Int {
        withUnsafeMutableBytes(of: &statistics) { bytes in
            let numbers = bytes.bindMemory(to: Int.self)
            for index in numbers.indices { numbers[index] = first + index }
            return numbers.count
        }
    }

    private func numbers<Statistics>(_ statistics: Statistics) -> [Int] {
        withUnsafeBytes(of: statistics) { Array($0.bindMemory(to: Int.self)) }
    }

    @Test("the difference subtracts every counter, and keeps what is said of now")
    func difference() {
        var (disk, oldDisk) = (CacheStatistics(), CacheStatistics())
        let count = fill(&disk, from: 1000)
        _ = fill(&oldDisk, from: 0)
        let since = disk - oldDisk
        #expect(
            numbers(since).filter { $0 != 1000 } == [
                since.segments.count, since.segments.liveBytes, since.segments.deadBytes,
            ])
        #expect(since.segments.count == disk.segments.count && count == 21)
        var (memory, oldMemory) = (MemoryStatistics(), MemoryStatistics())
        _ = fill(&memory, from: 1000)
        _ = fill(&oldMemory, from: 0)
        #expect(numbers(memory - oldMemory).allSatisfy { $0 == 1000 })
        var (remote, oldRemote) = (RemoteStatistics(), RemoteStatistics())
        _ = fill(&remote, from: 1000)
        _ = fill(&oldRemote, from: 0)
        let sinceRemote = remote - oldRemote
        #expect(
            numbers(sinceRemote).filter { $0 != 1000 } == [sinceRemote.waiting] && sinceRemote.waiting == remote.waiting
        )

        var (now, earlier) = (TierStatistics(), TierStatistics())
        (now.memoryHits, now.diskHits, now.remoteHits, now.misses, now.absentAnswers) = (11, 12, 13, 14, 15)
        (earlier.memoryHits, earlier.diskHits, earlier.remoteHits) = (1, 2, 3)
        (earlier.misses, earlier.absentAnswers) = (4, 5)
        now.fetches = FetchStatistics(
            begun: 20, failed: 21, coalesced: 22, staleAnswers: 23, totalTime: .seconds(24), longestTime: .seconds(25))
        earlier.fetches = FetchStatistics(
            begun: 10, failed: 11, coalesced: 12, staleAnswers: 13, totalTime: .seconds(14), longestTime: .seconds(15))
        (now.memory, now.disk, now.remote) = (memory, disk, remote)
        (earlier.memory, earlier.disk) = (oldMemory, oldDisk)
        let tiers = now - earlier
        let ten = [tiers.memoryHits, tiers.diskHits, tiers.remoteHits, tiers.misses, tiers.absentAnswers]
        #expect(ten.allSatisfy { $0 == 10 })
        let fetches = tiers.fetches
        let counts = [fetches.begun, fetches.failed, fetches.coalesced, fetches.staleAnswers]
        #expect(counts.allSatisfy { $0 == 10 })
        #expect(fetches.totalTime == .seconds(10) && fetches.longestTime == .seconds(25))
        let sinceMemory: MemoryStatistics = memory - oldMemory
        #expect(tiers.memory == sinceMemory)
        #expect(tiers.disk == since && tiers.remote == remote)
    }

    @Test("the metrics have every count once, with help and type, and no label but the namespace")
    func complete() {
        var tiers = TierStatistics()
        (tiers.memoryHits, tiers.diskHits, tiers.remoteHits, tiers.misses, tiers.absentAnswers) = (11, 12, 13, 14, 15)
        tiers.fetches = FetchStatistics(
            begun: 20, failed: 21, coalesced: 22, staleAnswers: 23, totalTime: .milliseconds(24_500),
            longestTime: .seconds(25))
        var (disk, memory, remote) = (CacheStatistics(), MemoryStatistics(), RemoteStatistics())
        let counts = fill(&disk, from: 100)
        _ = fill(&memory, from: 200)
        _ = fill(&remote, from: 300)
        (tiers.disk, tiers.memory, tiers.remote) = (disk, memory, remote)
        let text = tiers.prometheusText(prefix: "shop")
        let samples = text.split(separator: "\n").filter { !$0.hasPrefix("#") }.map { $0.split(separator: " ") }
        let values = samples.map { String($0[1]) }
        for value in 100..<100 + counts { #expect(values.filter { $0 == "\(value)" }.count == 1, "\(value)") }
        // The hits of a tier are those of the cache.
        for value in [202, 203, 204, 205, 206, 207] + Array(301...310) {
            #expect(values.contains("\(value)"), "\(value)")
        }
        for value in ["11", "12", "13", "14", "15", "20", "21", "22", "23", "24.5", "25.0"] {
            #expect(values.contains(value), "\(value)")
        }
        let names = samples.map { String($0[0]) }
        #expect(Set(names).count == names.count && names.allSatisfy { $0.hasPrefix("shop_") })
        for name in names {
            let isCounter = name.hasSuffix("_total")
            #expect(
                text.contains("# TYPE \(name) \(isCounter ? "counter" : "gauge")\n") && text.contains("# HELP \(name) ")
            )
        }
        #expect(!text.contains("{"))
    }

    @Test("namespaces are escaped, at most a hundred, and a name is always allowed")
    func labels() {
        let hostile = NamespaceUsage(namespace: "a\"b\\c\nd", count: 3, payloadSize: 5, allocatedSize: 4096)
        let root = NamespaceUsage(namespace: nil, count: 1, payloadSize: 2, allocatedSize: 8192)
        let text = CacheStatistics().prometheusText(namespaces: [hostile, root])
        #expect(text.contains(#"larder_entries{namespace="a\"b\\c\nd"} 3"# + "\n"))
        #expect(text.contains(#"larder_allocated_bytes{namespace=""} 8192"# + "\n"))
        let many = (0..<250).map {
            NamespaceUsage(namespace: $0 == 7 ? "other" : "n\($0)", count: 1, payloadSize: $0, allocatedSize: 1000 + $0)
        }
        let lines = CacheStatistics().prometheusText(namespaces: many).split(separator: "\n")
        let entries = lines.filter { $0.hasPrefix("larder_entries{") }
        #expect(entries.count == 101)
        #expect(entries.last.map(String.init) == #"larder_entries{namespace="other"} 150"#)
        #expect(lines.contains(#"larder_payload_bytes{namespace="n249"} 249"#))
        for (prefix, name) in [("", "_"), ("9", "_9"), ("my-cache é", "my_cache___"), ("a:b", "a_b")] {
            #expect(CacheStatistics().prometheusText(prefix: prefix).contains("\n\(name)_hits_total 0\n"), "\(prefix)")
        }
    }

    @Test("a directory says what each namespace takes, also after a restart and from a part of it")
    func namespaces() throws {
        var world = World { $0.entriesPerGroup = 3 }
        var cache = try world.open()
        #expect(cache.namespaces() == [NamespaceUsage(namespace: nil, count: 0, payloadSize: 0, allocatedSize: 0)])
        for number in 0..<20 {
            try cache.setData(Data(count: 10), forKey: "\(number)")
            try cache.namespace("b").setData(Data(count: 5000), forKey: "\(number)")
        }
        try cache.namespace("a").setData(Data(count: 7), forKey: "k")
        try cache.namespace("gone").setData(Data(count: 7), forKey: "k")
        try cache.namespace("gone").removeAll()
        for _ in 0..<2 {
            for handle in [cache, cache.namespace("b")] {
                let found = handle.namespaces()
                #expect(found.map(\.namespace) == [nil, "a", "b"])
                #expect(found.map(\.count) == [20, 1, 20] && found.map(\.payloadSize) == [200, 7, 100_000])
                #expect(found.map(\.allocatedSize) == [20 * 4096, 4096, 20 * 8192])
            }
            #expect("\(cache.namespaces()[1])" == #"namespace "a": 1 entry, 7 bytes, 4096 on disk"#)
            #expect(cache.allocatedSize == 20 * 4096 && cache.entry(forKey: "1")?.allocatedSize == 4096)
            try cache.close()
            #expect(cache.namespaces() == [])
            world.restart()
            cache = try world.open()
        }
    }

    private static let tool = "/usr/bin/promtool"

    @Test("promtool accepts them", .enabled(if: FileManager.default.isExecutableFile(atPath: tool)))
    func promtool() throws {
        let cache = try World().open()
        try cache.namespace("a\"b\\c\nd\u{1F}é").setString("v", forKey: "k")
        let values = Cache<String>(disk: cache, namespace: "n")
        var statistics = values.statistics
        statistics.remote = RemoteStatistics()
        for text in [
            cache.statistics.prometheusText(namespaces: cache.namespaces()),
            statistics.prometheusText(prefix: "shop", namespaces: cache.namespaces()),
        ] {
            let (process, input, output) = (Process(), Pipe(), Pipe())
            process.executableURL = URL(fileURLWithPath: Self.tool)
            process.arguments = ["check", "metrics"]
            (process.standardInput, process.standardOutput, process.standardError) = (input, output, output)
            try process.start()
            try input.fileHandleForWriting.write(contentsOf: Data(text.utf8))
            try input.fileHandleForWriting.close()
            let said = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
            process.waitUntilExit()
            #expect(process.terminationStatus == 0 && said.isEmpty, "\(said)")
        }
    }
}
