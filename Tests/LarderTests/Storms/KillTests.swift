import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// Real processes, real files, SIGKILL.
@Suite("A process killed at a random moment", .storm)
struct KillTests {
    /// The parent's knowledge from the child's output.
    struct Knowledge {
        var values: [String: Data] = [:]
        /// The change that has begun and is not reported as done.
        var pending: KillChange?

        mutating func hear(_ output: Data) {
            for line in String(decoding: output, as: UTF8.self).split(separator: "\n") {
                guard let change = KillChange(line.dropFirst(2)) else { continue }
                pending = line.hasPrefix("?") ? change : nil
                if line.hasPrefix("!") { apply(change, to: &values) }
            }
        }

        private func apply(_ change: KillChange, to values: inout [String: Data]) {
            switch change {
            case .set(let key, let version, let size), .copy(let key, let version, let size):
                values[key] = KillChange.payload(key: key, version: version, size: size)
            case .remove(let key), .expire(let key): values[key] = nil
            case .clear, .expireAll: values = values.filter { !KillChange.namespace(of: $0.key).isEmpty }
            case .clearNamespaces: values = [:]
            case .clearTag(let tag), .expireTag(let tag):
                values = values.filter {
                    !KillChange.namespace(of: $0.key).isEmpty || KillChange.tag(of: $0.value) != tag
                }
            case .renew, .flush: break
            }
        }

        /// The values after the pending change.
        var ifDone: [String: Data] {
            var after = values
            if let pending { apply(pending, to: &after) }
            return after
        }
    }

    /// The number of rounds: enough to hit every kind of moment, or the number from the environment for a longer run.
    private static let rounds = ProcessInfo.processInfo.environment["LARDER_KILLS"].flatMap(Int.init) ?? 20
    /// In which a segment is cleaned for certain.
    private static let mostRounds = 200

    /// No value, those of up to 500 bytes, and those of up to 70,000 are in segments.
    @Test("loses no acknowledged change, and leaves nothing behind", arguments: [0, 1_000, 100_000], [true, false])
    func killed(threshold: Int, isShared: Bool) throws {
        let rounds = threshold == 0 && isShared ? Self.rounds : (Self.rounds + 3) / 4
        let home = try TemporaryDirectory()
        let directory = home.appending("cache")
        let seed = RunSeed.seed("\(threshold) \(isShared)")
        print("kill test: seed \(seed), \(rounds) rounds, up to \(threshold) bytes in segments")
        var generator = SeededGenerator(seed: seed)
        var knowledge = Knowledge()
        var (acknowledged, cleaned) = (0, 0)
        var round = 0
        while round < rounds || threshold > 0 && cleaned == 0 && round < Self.mostRounds {
            defer { round += 1 }
            let output = try killedChild(
                directory, seed: seed &+ UInt64(round), threshold, isShared: isShared,
                afterBytes: Int.random(in: 1...8_000, using: &generator))
            acknowledged += output.filter { $0 == UInt8(ascii: "!") }.count
            knowledge.hear(output)
            let configuration = KillChange.configuration(inlineThreshold: threshold, isShared: isShared)
            let cache = try DiskCache(directory: directory, configuration: configuration)
            // At once, and again after the cleanup, which may find the file of a pending change.
            _ = verify(cache, knowledge, "round \(round), seed \(seed)")
            try cache.flush()
            knowledge = verify(cache, knowledge, "round \(round) after the flush, seed \(seed)")
            cache.store.index.loadAll()
            let entries = (0..<Index.shardCount).flatMap { cache.store.index.snapshot($0) }
            let ownFiles = entries.filter { !$0.file.place.isInSegment }
            let inSegments = entries.filter(\.file.place.isInSegment)
            #expect(inSegments.allSatisfy { $0.size <= threshold }, "round \(round)")
            #expect(
                Set(home.names(in: "cache/entries")).subtracting(["segments"])
                    == Set(ownFiles.map { FileName.number($0.file.number).description }),
                "nothing left behind, round \(round)")
            let live = inSegments.reduce(0) { $0 + $1.size + KillChange.longestRest }
            #expect(
                segmentBytes(home) <= live * 3 / 2 + 2 * configuration.segmentLength, "nothing left, round \(round)")
            cleaned += cache.statistics.segments.cleaned
            let left =
                home.names(in: "cache").filter { !["trash", "CACHEDIR.TAG"].contains($0) }
                + home.names(in: "cache/trash")
            // A child killed before its first change, or after some that found nothing to change, leaves nothing that
            // an index would be saved for.
            let isUntouched = !left.contains("manifest.json")
            #expect(!isUntouched || entries.isEmpty && knowledge.values.isEmpty, "\(left.sorted()), round \(round)")
            #expect(
                left.count == (isShared ? 4 : 3) - (isUntouched ? 1 : 0), "\(left.sorted()), round \(round)")
            try cache.close()
        }
        print("kill test: \(round) kills, \(acknowledged) acknowledged changes verified, \(cleaned) segments cleaned")
        #expect(acknowledged > rounds)
        if threshold > 0 { #expect(cleaned > 0) }
    }

    private func segmentBytes(_ home: TemporaryDirectory) -> Int {
        let names = home.names(in: "cache/entries/segments")
        return names.reduce(0) { sum, name in
            let file = home.appending("cache/entries/segments/" + name)
            return sum + ((try? file.resourceValues(forKeys: [.fileSizeKey]).fileSize) ?? 0)
        }
    }

    /// Returns the knowledge after checking every value.
    private func verify(_ cache: DiskCache, _ knowledge: Knowledge, _ context: Comment) -> Knowledge {
        var seen = Knowledge()
        let after = knowledge.ifDone
        for number in 0..<40 {
            let key = "key \(number)"
            let value = cache.namespace(KillChange.namespace(of: key)).data(forKey: key)
            #expect(value == knowledge.values[key] || value == after[key], "\(key), \(context)")
            seen.values[key] = value
        }
        #expect(cache.statistics.corruptions == 0, context)
        return seen
    }

    private func startedChild(
        _ directory: URL, seed: UInt64, _ threshold: Int = 0, isShared: Bool = true
    ) throws -> (Process, Pipe) {
        let process = Process()
        process.executableURL = try Executables.url(of: "KillChild")
        process.arguments = [directory.path, "\(seed)", "\(threshold)", isShared ? "shared" : "alone"]
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.start()
        return (process, pipe)
    }

    /// Runs a child until it has printed this many bytes, kills it at that moment, and returns its output.
    private func killedChild(
        _ directory: URL, seed: UInt64, _ threshold: Int, isShared: Bool, afterBytes limit: Int
    ) throws -> Data {
        let (process, pipe) = try startedChild(directory, seed: seed, threshold, isShared: isShared)
        var output = Data()
        while output.count < limit {
            let part = pipe.fileHandleForReading.availableData
            if part.isEmpty { break }
            output += part
        }
        kill(process.processIdentifier, SIGKILL)
        output += pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        #expect(process.terminationReason == .uncaughtSignal, "it ran until it was killed")
        return output
    }

    @Test("a second process that wants the directory for itself is kept out while the first one runs")
    func directoryInUse() throws {
        let home = try TemporaryDirectory()
        let directory = home.appending("cache")
        let (process, pipe) = try startedChild(directory, seed: 1)
        _ = pipe.fileHandleForReading.availableData
        let alone = DiskCache.Configuration(sharing: .exclusive)
        let error = #expect(throws: CacheError.self) { try DiskCache(directory: directory, configuration: alone) }
        #expect(throws: Never.self) { try DiskCache(directory: directory, configuration: .init(sharing: .processes)) }
        #expect(error?.code == .directoryInUse && error?.path == directory.path)
        #expect(error?.message.contains("To see which: lsof '\(directory.path)'") == true)
        kill(process.processIdentifier, SIGKILL)
        _ = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        #expect(throws: Never.self) { try DiskCache(directory: directory, configuration: alone) }
    }
}

/// The package's own programs, next to the test bundle.
enum Executables {
    static func url(of name: String) throws -> URL {
        let bundles = Bundle.allBundles.map(\.bundleURL).filter { $0.pathExtension == "xctest" }
        let places = bundles + [URL(fileURLWithPath: CommandLine.arguments[0])]
        let found = places.map { $0.deletingLastPathComponent().appendingPathComponent(name) }
            .first { FileManager.default.isExecutableFile(atPath: $0.path) }
        return try #require(found, "\(name) is not built next to the tests")
    }
}
