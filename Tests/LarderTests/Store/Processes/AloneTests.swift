import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@_silgen_name("fork")
private func forkProcess() -> pid_t

/// A process that has the directory alone is the only one in a page of its own.
@Suite("Alone in a directory", .serialized)
struct AloneTests {
    enum Before: CaseIterable { case nothing, read, removed, renewed, stored }

    @Test(
        "a forked child does not use the cache of its parent, whatever that has done before",
        arguments: [DiskCache.Sharing.exclusive, .processes], Before.allCases)
    func forked(sharing: DiskCache.Sharing, before: Before) throws {
        let home = try TemporaryDirectory()
        var configuration = DiskCache.Configuration()
        configuration.sharing = sharing
        let directory = home.appending("cache")
        let first = try DiskCache(directory: directory, configuration: configuration)
        for key in ["k", "l"] { try first.setString("parent", forKey: key) }
        try first.close()
        let cache = try DiskCache(directory: directory, configuration: configuration)
        switch before {
        case .nothing: break
        case .read: #expect(cache.string(forKey: "k") == "parent")
        case .removed: try cache.removeValue(forKey: "l")
        case .renewed: _ = try cache.setTimeToLive(.hours(1), forKey: "l")
        case .stored: try cache.setString("again", forKey: "l")
        }
        // A child may hang in the runtime: at the fork, another thread of this process may have held one of its locks.
        var status = Self.statusOfChild(of: cache)
        for _ in 0..<3 where status & 0x7f == SIGALRM { status = Self.statusOfChild(of: cache) }
        #expect(status == 0, "signal \(status & 0x7f); read, set, removed: \(String(status >> 8, radix: 2))")
        #expect(cache.string(forKey: "k") == "parent")
        try cache.setString("later", forKey: "l")
        try cache.close()
        let again = try DiskCache(directory: directory, configuration: configuration)
        #expect(again.string(forKey: "k") == "parent" && again.string(forKey: "l") == "later")
    }

    private static func statusOfChild(of cache: DiskCache) -> Int32 {
        let child = forkProcess()
        if child == 0 {
            alarm(5)
            var status: Int32 = 0
            if cache.string(forKey: "k") != nil { status |= 1 }
            if (try? cache.setString("child", forKey: "k")) != nil { status |= 2 }
            if (try? cache.removeValue(forKey: "k")) != nil { status |= 4 }
            _exit(status)
        }
        var status: Int32 = 0
        while waitpid(child, &status, 0) < 0, errno == EINTR {}
        return status
    }

    @Test("a sweep passes over no value that the cleaner is moving")
    func sweepBesideCleaner() throws {
        let world = World.exclusive { $0.sweepInterval = nil }
        let cache = try world.open()
        for key in 0..<100 { try cache.setString("short", forKey: "\(key)", ttl: .minutes(1)) }
        let membership = cache.store.disk.others.object.membership
        for stripe in 0..<PeerPage.stripeCount { #expect(membership.tryLockForLong(stripe: stripe)) }
        world.clock.advance(by: .hours(1))
        #expect(cache.removeExpired() == 100)
        for stripe in 0..<PeerPage.stripeCount { membership.unlockForLong(stripe: stripe) }
    }

    @Test("a set whose condition does not hold takes no number", arguments: [DiskCache.Sharing.exclusive, .processes])
    func refused(sharing: DiskCache.Sharing) throws {
        let world = World { $0.sharing = sharing }
        let cache = try world.open()
        try cache.setString("a", forKey: "k", ttl: .hours(2))
        let last = cache.store.info.lastTaken
        let life = try #require(TimeToLive.hours(1).life(from: world.clock.now, default: .forever))
        let request = SetRequest(
            key: Key("k"), life: life, attachments: nil, now: world.clock.now, condition: .ifNotFresh)
        #expect(try !Array("x".utf8).withBytes { bytes throws(CacheError) in try cache.store.set(bytes, request) })
        #expect(cache.store.info.lastTaken == last && cache.string(forKey: "k") == "a")
    }

    enum Act: CaseIterable { case clear, expire }

    @Test(
        "a clear or an expiry whose record cannot be written holds all the same, also if the index is lost",
        arguments: Act.allCases, [false, true])
    func unrecorded(act: Act, losesIndex: Bool) throws {
        var world = World.exclusive {
            $0.sweepInterval = nil
            $0.inlineThreshold = 0
        }
        var cache = try world.open()
        for (key, value) in [("o", "other"), ("k", "old"), ("k", "new"), ("p", "other")] {
            try cache.setString(value, forKey: key, ttl: .forever, tags: ["t"])
        }
        cache.settle()
        let writes = Lock(0)
        world.files.inject { _, operation in
            // Nothing can be deleted, and the record cannot be written; the tombstone can.
            if operation == .remove { return .fail(.notPermitted) }
            guard operation == .write else { return nil }
            return writes.withLock { writes in
                writes += 1
                return writes == 2 ? .fail(.io) : nil
            }
        }
        switch act {
        case .clear: try cache.removeAll(tagged: "t")
        case .expire: try cache.expireAll(tagged: "t")
        }
        for key in ["o", "k", "p"] { #expect(cache.string(forKey: key) == nil) }
        if losesIndex { world.loseIndex() }
        world.restart()
        cache = try world.open()
        for key in ["o", "k", "p"] { #expect(cache.string(forKey: key) == nil) }
        try cache.flush()
        cache.checkInvariants(world, settled: true)
        #expect(world.entryFiles == [])
    }
}
