import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// The world of a cache, in memory: a disk and a clock.
struct World {
    static let directory = URL(fileURLWithPath: "/cache", isDirectory: true)

    var files = MemoryFileSystem()
    let clock = ManualClock()
    var configuration = DiskCache.Configuration()

    /// A world whose caches have manifests of small groups, so that a few entries are loaded later.
    static func grouped(_ configure: (inout DiskCache.Configuration) -> Void = { _ in }) -> World {
        World {
            $0.entriesPerGroup = 3
            configure(&$0)
        }
    }

    /// The same, with caches that evict the least recently used entries.
    static func inOrderOfUse(_ configure: (inout DiskCache.Configuration) -> Void = { _ in }) -> World {
        grouped {
            $0.eviction = .leastRecentlyUsed
            configure(&$0)
        }
    }

    /// A world whose caches have their directory for themselves.
    static func exclusive(_ configure: (inout DiskCache.Configuration) -> Void = { _ in }) -> World {
        World {
            $0.sharing = .exclusive
            configure(&$0)
        }
    }

    /// A key whose changes do not wait for those of another key. Each process has another seed for the
    /// hashes that decide this.
    static func key(besides other: String) -> String {
        (0...).lazy.map { "beside \($0)" }.first { Key($0).shard != Key(other).shard }!
    }

    /// The threshold of all worlds that set none, in bytes: to try the whole suite with segments.
    static let inlineThreshold =
        ProcessInfo.processInfo.environment["LARDER_INLINE"].flatMap { Int($0) } ?? 0

    init(_ configure: (inout DiskCache.Configuration) -> Void = { _ in }) {
        configuration.inlineThreshold = Self.inlineThreshold
        configure(&configuration)
    }

    func open() throws -> DiskCache { try open(through: files) }

    func open(through files: some FileSystem) throws -> DiskCache {
        try DiskCache(directory: Self.directory, configuration: configuration, fileSystem: files, clock: clock)
    }

    /// Kills the process: the disk stays, and everything in memory is lost.
    mutating func restart() {
        files = MemoryFileSystem(files.image)
    }

    mutating func restart(with image: MemoryImage) {
        files = MemoryFileSystem(image)
    }

    /// Changes the content of a file of the cache without its knowledge.
    mutating func damage(_ path: String, _ change: (inout [UInt8]) -> Void) throws {
        var image = files.image
        var content = try #require(image.content(at: "/cache/" + path))
        change(&content)
        image.setContent(content, at: "/cache/" + path)
        restart(with: image)
    }

    mutating func remove(_ path: String) {
        var image = files.image
        image.remove(at: "/cache/" + path)
        restart(with: image)
    }

    /// Removes everything but the entry files.
    mutating func loseIndex() {
        for name in names where name != "entries" { remove(name) }
    }

    /// Arranges for the process to be killed in a call; the flag is true once that call is reached.
    func killing(in number: Int) -> Lock<Bool> {
        let isReached = Lock(false)
        files.inject { call, _ in
            guard call == number else { return nil }
            isReached.withLock { $0 = true }
            return .kill
        }
        return isReached
    }

    /// Makes a call fail, or it and all after it; the flag is true once that call is reached.
    func failing(in number: Int, with error: Errno, persistent: Bool = false) -> Lock<Bool> {
        let isReached = Lock(false)
        files.inject { call, _ in
            guard call == number || persistent && call > number else { return nil }
            isReached.withLock { $0 = true }
            return .fail(error)
        }
        return isReached
    }

    /// Makes the n-th file read after the listing of the entries fail; the newest is read first.
    func failRead(_ number: Int, with error: Errno = .io) {
        let seen = Lock((lists: 0, reads: 0))
        files.inject { _, operation in
            seen.withLock { seen in
                if operation == .list { seen = (seen.lists + 1, 0) }
                guard operation == .read, seen.lists >= 2 else { return nil }
                seen.reads += 1
                return seen.reads == number ? .fail(error) : nil
            }
        }
    }

    var names: [String] { files.image.names(at: "/cache") }
    /// The names of the files in the directory of the entries, without the segments.
    var entryFiles: [String] { files.image.names(at: "/cache/entries").filter { $0 != "segments" } }
    /// Files of entries, and entries in segments that are not dead.
    var fileCount: Int {
        let copy = MemoryFileSystem(files.image)
        guard let directory = try? copy.openDirectory(path: "/cache/entries", creation: .never) else { return 0 }
        let inSegments = try? SegmentTable(of: OwnedDescriptor(directory), in: copy).list()
        return entryFiles.count + (inSegments?.entries.count ?? 0)
    }
    /// The names of the segments.
    var segments: [String] { files.image.names(at: "/cache/entries/segments") }

    var journal: String {
        get throws { try #require(names.last { $0.hasPrefix("journal-") }) }
    }
}

extension MemoryFileSystem {
    /// Deletes a directory of the root and everything in it, while it may be open.
    func deleteTree(_ name: String) throws {
        try deleteTree(.text(name), in: openDirectory(path: "/", creation: .never))
    }

    /// Overwrites a file of the cache with zeros, from an offset to its end, while it may be open.
    func overwrite(_ name: String, from offset: Int) throws {
        let root = OwnedDescriptor(try openDirectory(path: "/cache", creation: .never))
        let (file, size) = try #require(try openRegular(.text(name), in: root.file, for: .updating))
        try write([UInt8](repeating: 0, count: size - offset), to: file.file, at: offset)
    }

    private func deleteTree(_ name: FileName, in parent: consuming FileDescriptor) throws {
        let parent = OwnedDescriptor(parent)
        try deleteContents(of: OwnedDescriptor(open(name, in: parent.file, for: .directory)))
        try remove(name, in: parent.file, directory: true)
    }

    private func deleteContents(of directory: OwnedDescriptor) throws {
        var names: [(FileName, FileKind)] = []
        try list(directory.file) { name, kind in
            names.append((name, kind))
            return true
        }
        for (name, kind) in names {
            if kind == .directory {
                try deleteContents(of: OwnedDescriptor(open(name, in: directory.file, for: .directory)))
            }
            try remove(name, in: directory.file, directory: kind == .directory)
        }
    }
}

extension DiskCache {
    /// Waits for running background work, and for the work that it has begun.
    func settle() {
        _ = settling()
    }

    /// Checks the invariants that always hold. With `settled`, also checks that entries and files agree: call `flush()`
    /// first.
    func checkInvariants(
        _ world: World? = nil, settled: Bool = false, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        var files: Set<FileID> = []
        let before = store.index.totals
        if settled {
            store.index.loadAll()
            // It may find damage, and a save follows the repair.
            settle()
        }
        for position in 0..<Index.shardCount {
            let shard = store.index.withShard(at: position) { $0 }
            #expect(shard.table.violations() == [], sourceLocation: sourceLocation)
            for entry in shard.table.entries where entry.file != 0 {
                #expect(entry.key.shard == position, sourceLocation: sourceLocation)
                #expect(files.insert(entry.file).inserted, sourceLocation: sourceLocation)
            }
        }
        guard settled, let world else { return }
        #expect(store.index.obsoleteCount == 0, sourceLocation: sourceLocation)
        var totals = EntryTable.Totals()
        store.index.forEachShard { shard in
            totals.add(shard.table.totals)
        }
        #expect(store.index.totals == totals, sourceLocation: sourceLocation)
        #expect(before == totals, "the sums are right before the entries are loaded", sourceLocation: sourceLocation)
        let expected = files.filter { !$0.place.isInSegment }.map { FileName.number($0.number).description }.sorted()
        #expect(world.entryFiles == expected, "entries and files agree", sourceLocation: sourceLocation)
        let inSegments = store.disk.runAnyway { (try? $0?.segments.list())?.entries ?? [] }
        let placed = files.filter(\.place.isInSegment)
        #expect(placed.isSuperset(of: inSegments), "segments have no more", sourceLocation: sourceLocation)
        for file in placed.subtracting(inSegments) {
            // The record may be damaged, while the payload is not.
            let isThere = store.disk.runAnyway { $0?.mayExist(file) ?? false }
            #expect(isThere, "segments have all entries", sourceLocation: sourceLocation)
        }
        let strange = world.names.filter { $0.hasSuffix(".tmp") }
        #expect(strange == [], sourceLocation: sourceLocation)
    }
}

/// Collects events, other than that a value was stored.
final class EventLog: Sendable {
    private let log = Lock<[CacheEvent]>([])

    @Sendable func note(_ event: CacheEvent) {
        if event.kind != .stored { log.withLock { $0.append(event) } }
    }

    var all: [CacheEvent] { log.withLock { $0 } }

    /// The events up to now, in order.
    func events(of cache: DiskCache) -> [CacheEvent] {
        cache.store.events.drain()
        return log.withLock { $0 }
    }
}

func data(_ text: String) -> Data { Data(text.utf8) }

/// Runs `body` and returns the code of the `CacheError` that it throws; nil when it throws none.
func code<Result>(_ body: () throws -> Result) -> CacheError.Code? {
    do {
        _ = try body()
        return nil
    } catch {
        return (error as? CacheError)?.code
    }
}

/// The same for an async call.
func code<Result>(_ body: () async throws -> Result) async -> CacheError.Code? {
    do {
        _ = try await body()
        return nil
    } catch {
        return (error as? CacheError)?.code
    }
}

extension Key: ExpressibleByStringLiteral {
    public init(stringLiteral text: String) { self.init(text) }
}

/// Gives each test its own caches directory, instead of the user's.
struct OwnCaches: TestTrait, SuiteTrait, TestScoping {
    var isRecursive: Bool { true }

    @concurrent
    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        guard testCase != nil else { return try await function() }
        let home = try TemporaryDirectory()
        try await CachesDirectory.$root.withValue(home.url) { try await function() }
        _ = home
    }
}

extension Trait where Self == OwnCaches {
    static var ownCaches: Self { OwnCaches() }
}
