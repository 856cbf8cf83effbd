import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// On real directories.
@Suite("A handle belongs to the directory that it opened")
struct IdentityTests {
    private let home: TemporaryDirectory
    private let clock = ManualClock()
    private let manager = FileManager.default

    init() throws {
        home = try TemporaryDirectory()
    }

    private func open(_ name: String, _ log: EventLog? = nil) throws -> DiskCache {
        var configuration = DiskCache.Configuration()
        configuration.onEvent = log.map { $0.note }
        return try DiskCache(
            directory: home.appending(name), configuration: configuration, fileSystem: PosixFileSystem(), clock: clock)
    }

    private func sweep(_ caches: DiskCache...) {
        clock.advance(by: .seconds(61))
        for cache in caches { cache.settle() }
    }

    @Test("a handle opened through a symbolic link stays with its directory when the link is switched")
    func switchedLink() throws {
        for name in ["v1", "v2"] {
            let cache = try open(name)
            try cache.setString(name, forKey: "k")
            try cache.close()
        }
        try manager.createSymbolicLink(at: home.appending("current"), withDestinationURL: home.appending("v1"))
        let current = try open("current")
        let first = try open("v1")
        #expect(current.store === first.store)
        try manager.removeItem(at: home.appending("current"))
        try manager.createSymbolicLink(at: home.appending("current"), withDestinationURL: home.appending("v2"))
        sweep(current, first)
        #expect(first.string(forKey: "k") == "v1" && current.string(forKey: "k") == "v1")
        try first.setString("new", forKey: "k")
        let second = try open("current")
        #expect(second.string(forKey: "k") == "v2", "a new handle follows the current link")
        #expect(first.string(forKey: "k") == "new")
    }

    @Test("after its directory is deleted and opened again, both handles share one store")
    func openedAgain() throws {
        let log = EventLog()
        let first = try open("cache", log)
        try first.setString("old", forKey: "k")
        try manager.removeItem(at: home.appending("cache"))
        let second = try open("cache")
        #expect(first.store === second.store)
        try second.setString("second", forKey: "k")
        #expect(first.string(forKey: "k") == "second")
        try first.setString("first", forKey: "k")
        #expect(second.string(forKey: "k") == "first")
        #expect(log.events(of: first).filter { $0.kind == .reopened }.count == 1)
        try first.close()
        try second.close()
        #expect(try open("cache").string(forKey: "k") == "first")
    }

    @Test("a store that has moved is found again when its directory is deleted once more")
    func openedTwiceAgain() throws {
        let first = try open("cache")
        for round in 0..<3 {
            try manager.removeItem(at: home.appending("cache"))
            let second = try open("cache")
            #expect(first.store === second.store)
            try second.setString("\(round)", forKey: "k")
            #expect(first.string(forKey: "k") == "\(round)")
            try first.setString("again", forKey: "k")
            #expect(second.string(forKey: "k") == "again")
        }
    }

    @Test("a deleted store whose handles' paths lead to different directories moves to neither")
    func undecided() throws {
        let one = try open("cache")
        try manager.createSymbolicLink(at: home.appending("link"), withDestinationURL: home.appending("cache"))
        let other = try open("link")
        #expect(one.store === other.store)
        try manager.removeItem(at: home.appending("cache"))
        try manager.removeItem(at: home.appending("link"))
        try manager.createDirectory(at: home.appending("link"), withIntermediateDirectories: false)
        #expect(code { try one.setString("v", forKey: "k") } == .io)
        #expect(code { try one.removeAll() } == .io)
        #expect(one.string(forKey: "k") == nil && home.names(in: "link") == [])
        #expect(home.names() == ["link"], "nothing is created where it would not be used")
    }

    @Test("a directory deleted and opened again by another path still has one store")
    func alias() throws {
        try manager.createDirectory(at: home.appending("real"), withIntermediateDirectories: false)
        try manager.createSymbolicLink(at: home.appending("link"), withDestinationURL: home.appending("real"))
        let first = try open("real/cache")
        try first.setString("v", forKey: "k")
        try manager.removeItem(at: home.appending("real/cache"))
        let second = try open("link/cache")
        #expect(first.store === second.store)
        try first.setString("w", forKey: "k")
        #expect(second.string(forKey: "k") == "w")
    }

    @Test("a moved store obeys its limits in the new directory, and does not trust a damaged index there")
    func movedToDamaged() async throws {
        func limited(_ name: String) throws -> DiskCache {
            var configuration = DiskCache.Configuration()
            configuration.sweepInterval = nil
            configuration.countLimit = 100
            return try DiskCache(
                directory: home.appending(name), configuration: configuration, fileSystem: PosixFileSystem(),
                clock: clock)
        }
        weak var before: Store?
        do {
            let other = try open("b")
            before = other.store
            for number in 0..<300 { try other.setString("old", forKey: "\(number)") }
            try other.flush()
            for number in 200..<300 { try other.setString("new", forKey: "\(number)") }
            other.settle()
        }
        // The background may still have it.
        await eventually { before == nil }
        for name in home.names(in: "b") where name.hasPrefix("journal") {
            try manager.removeItem(at: home.appending("b/" + name))
        }
        let cache = try limited("a")
        try cache.setString("v", forKey: "k")
        try manager.removeItem(at: home.appending("a"))
        try manager.moveItem(at: home.appending("b"), to: home.appending("a"))
        let again = try limited("a")
        #expect(cache.store === again.store)
        for number in 200..<300 { #expect([nil, "new"].contains(again.string(forKey: "\(number)"))) }
        try again.flush()
        #expect(again.count <= 100 && again.statistics.adoptions == 100)
    }

    @Test("a second opener may wait at once for the reconciliation that the first one began")
    func secondOpener() throws {
        for round in 0..<Sample.size(5, usually: 2) {
            let name = "c\(round)"
            do {
                let cache = try open(name)
                for number in 0..<1_200 { try cache.setString("v", forKey: "\(number)") }
                cache.settle()
            }
            for file in home.names(in: name) where file != "entries" {
                try manager.removeItem(at: home.appending("\(name)/\(file)"))
            }
            let counts = Lock<[Int]>([])
            DispatchQueue.concurrentPerform(iterations: 2) { _ in
                guard let cache = try? open(name) else { return }
                let count = cache.keys().count
                counts.withLock { $0.append(count) }
            }
            #expect(counts.withLock { $0 } == [1_200, 1_200])
        }
    }

    @Test("a closed handle keeps no descriptor open")
    func closedHandle() throws {
        let world = World()
        let cache = try world.open()
        try cache.setString("v", forKey: "k")
        try cache.close()
        #expect(world.files.openCount == 0)
        withExtendedLifetime(cache) {}
    }

    @Test("a closed handle keeps neither a file of a real directory open nor one mapped")
    func closedRealHandle() throws {
        guard manager.fileExists(atPath: "/proc/self/maps") else { return print("skipped: there is no /proc") }
        func uses() throws -> [String] {
            let path = home.appending("cache").resolvingSymlinksInPath().path
            let maps = try String(contentsOfFile: "/proc/self/maps", encoding: .utf8)
            let descriptors = try manager.contentsOfDirectory(atPath: "/proc/self/fd").compactMap {
                try? manager.destinationOfSymbolicLink(atPath: "/proc/self/fd/" + $0)
            }
            return (maps.split(separator: "\n").map { String($0) } + descriptors).filter { $0.contains(path) }
        }
        let cache = try open("cache")
        try cache.setString("v", forKey: "k")
        try cache.flush()
        #expect(try uses().contains { $0.hasSuffix("/shared") })
        try cache.close()
        #expect(try uses() == [])
        #expect(cache.string(forKey: "k") == nil && code { try cache.setString("w", forKey: "k") } == .closed)
        #expect(code { try cache.close() } == nil)
        #expect(try open("cache").string(forKey: "k") == "v")
    }

    @Test("reads and changes under way while the last handle is closed end with a value, a miss or an error")
    func closedMeanwhile() throws {
        for round in 0..<Sample.size(100, usually: 10) {
            let cache = try open("cache")
            try cache.setString("v", forKey: "k")
            let other = try open("cache")
            DispatchQueue.concurrentPerform(iterations: 4) { thread in
                if thread == 0 {
                    try? other.close()
                    try? cache.close()
                }
                for _ in 0..<200 {
                    let value = cache.string(forKey: "k")
                    #expect(value == nil || value == "v")
                    let found = code { try cache.setString("\(round)", forKey: "other \(thread)") }
                    #expect(found == nil || found == .closed)
                    _ = cache.count
                }
            }
            #expect(cache.string(forKey: "k") == nil && code { try cache.removeAll() } == .closed)
        }
    }

    @Test("removing everything recreates a deleted directory")
    func removedAll() throws {
        let cache = try open("cache")
        try cache.namespace("n").setString("v", forKey: "k")
        try manager.removeItem(at: home.appending("cache"))
        try cache.removeAll()
        try cache.setString("w", forKey: "k")
        cache.settle()
        try manager.removeItem(at: home.appending("cache"))
        try cache.namespace("n").removeAll()
        try cache.setString("w", forKey: "k")
        #expect(cache.string(forKey: "k") == "w" && cache.count == 1)
    }

    @Test("swapping, sweeping and closing two directories at once does not deadlock", arguments: 1...20)
    func swapped(round: Int) throws {
        let caches = [try open("a"), try open("b")]
        for cache in caches { try cache.setString(cache.directory.lastPathComponent, forKey: "k") }
        try manager.moveItem(at: home.appending("a"), to: home.appending("c"))
        try manager.moveItem(at: home.appending("b"), to: home.appending("a"))
        try manager.moveItem(at: home.appending("c"), to: home.appending("b"))
        let done = DispatchGroup()
        for cache in caches {
            done.enter()
            Thread.detachNewThread {
                clock.advance(by: .seconds(61))
                try? cache.close()
                done.leave()
            }
        }
        #expect(done.wait(timeout: .hang) == .success)
        #expect(try open("a").string(forKey: "k") == "b")
    }

    @Test("many threads delete, open, fill and close directories without a deadlock or a lost store")
    func deletedByMany() throws {
        let failures = Lock<[String]>([])
        let done = DispatchGroup()
        for thread in 0..<4 {
            done.enter()
            Thread.detachNewThread {
                for round in 0..<60 {
                    do {
                        let cache = try open("d\(round % 2)")
                        try? cache.setString("v", forKey: "\(thread) \(round)")
                        if thread == 0, round % 7 == 3 {
                            try? manager.removeItem(at: home.appending("d\(round % 2)"))
                        }
                        if round % 3 == 0 { try? cache.close() }
                    } catch {
                        // The directory may vanish between its creation and its opening.
                        if (error as? CacheError)?.errno != Errno.noEntry.rawValue {
                            failures.withLock { $0.append("\(error)") }
                        }
                    }
                }
                done.leave()
            }
        }
        #expect(done.wait(timeout: .hang) == .success)
        #expect(failures.withLock { $0 } == [])
        try? manager.removeItem(at: home.appending("d0"))
        let cache = try open("d0")
        try cache.setString("v", forKey: "k")
        #expect(cache.string(forKey: "k") == "v")
    }

    @Test("nothing is created on another disk when a volume is no longer mounted at the path")
    func otherDisk() throws {
        // In memory, where possible: on most machines a different disk from that of the temporary directory.
        let shared = URL(fileURLWithPath: "/dev/shm/larder-test-\(UUID().uuidString)")
        guard (try? manager.createDirectory(at: shared, withIntermediateDirectories: false)) != nil else { return }
        defer { try? manager.removeItem(at: shared) }
        let files = PosixFileSystem()
        let here = try files.status(of: try files.openDirectory(path: home.url.path, creation: .never))
        let there = try files.status(of: try files.openDirectory(path: shared.path, creation: .never))
        guard here.identity.device != there.identity.device else { return }
        let mounted = home.appending("mounted")
        try manager.createDirectory(at: mounted, withIntermediateDirectories: false)
        let link = home.appending("volume")
        try manager.createSymbolicLink(at: link, withDestinationURL: mounted)
        let cache = try open("volume/deep/cache")
        try cache.setString("v", forKey: "k")
        try manager.removeItem(at: mounted)
        try manager.removeItem(at: link)
        try manager.createSymbolicLink(at: link, withDestinationURL: shared)
        #expect(code { try cache.setString("w", forKey: "k") } == .io)
        #expect(try manager.contentsOfDirectory(atPath: shared.path) == [])
    }
}
