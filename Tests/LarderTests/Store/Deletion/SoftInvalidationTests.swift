import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// Every test here acts first, and then waits for background work.
@Suite("An entry that a caller expires is a miss at once, and is kept for its stale window")
struct SoftInvalidationTests {
    @Test("plain reads miss on every handle, and the stale window begins then", arguments: Invalidation.allCases)
    func keptFromNowOn(_ invalidation: Invalidation) throws {
        let world = World { $0.sweepInterval = nil }
        let whole = try world.open()
        let other = try world.open()
        let cache = whole.namespace(invalidation.namespace)
        try cache.setKept("v", forKey: "k", tags: ["t"])
        world.clock.advance(by: .seconds(10))
        try invalidation.apply(to: whole)
        for handle in [cache, other.namespace(invalidation.namespace)] {
            #expect(handle.data(forKey: "k") == nil && !handle.hasValue(forKey: "k") && handle.keys() == [])
            #expect(handle.entry(forKey: "k") == nil && handle.usable("k") == "v")
        }
        #expect(cache.keptUntil("k") == world.clock.milliseconds + 60_000)
        cache.settle()
        world.clock.advance(by: .milliseconds(59_999))
        #expect(cache.data(forKey: "k") == nil && cache.usable("k") == "v")
        world.clock.advance(by: .milliseconds(1))
        #expect(cache.usable("k") == nil)
        #expect(whole.removeExpired() == 1)
        try whole.flush()
        whole.checkInvariants(world, settled: true)
        #expect(world.entryFiles == [])
    }

    @Test("an entry without a stale window is removed with its file", arguments: Invalidation.allCases)
    func notKept(_ invalidation: Invalidation) throws {
        let world = World { $0.sweepInterval = nil }
        let whole = try world.open()
        let cache = whole.namespace(invalidation.namespace)
        try cache.setString("v", forKey: "k", ttl: .forever, tags: ["t"])
        try cache.setKept("", forKey: "absent", tags: ["t"], isAbsent: true)
        try invalidation.apply(to: whole)
        #expect(cache.string(forKey: "k") == nil && cache.usable("k") == nil)
        if invalidation == .key {
            #expect(world.entryFiles.count == 1, "it is deleted before the call returns")
            #expect(try !cache.expireValue(forKey: "absent"), "an absence is not a value")
            #expect(world.entryFiles == [])
        }
        #expect(cache.store.index.entry(cache.key("absent"))?.isInForce(at: cache.now) != true)
        whole.settle()
        #expect(world.entryFiles == [] && whole.count == 0)
        try whole.flush()
        whole.checkInvariants(world, settled: true)
        #expect(whole.statistics.expirations == 2)
    }

    @Test("an entry that has already expired keeps its earlier end", arguments: Invalidation.allCases)
    func neverExtended(_ invalidation: Invalidation) throws {
        let world = World { $0.sweepInterval = nil }
        let whole = try world.open()
        let cache = whole.namespace(invalidation.namespace)
        try cache.setKept("v", forKey: "k", ttl: .seconds(10), tags: ["t"])
        let end = cache.keptUntil("k")
        world.clock.advance(by: .seconds(30))
        if invalidation == .key {
            #expect(try !cache.expireValue(forKey: "k"))
        } else {
            try invalidation.apply(to: whole)
        }
        #expect(cache.keptUntil("k") == end && cache.usable("k") == "v")
        whole.settle()
        #expect(cache.keptUntil("k") == end)
        // Repeated expiries do not change the first end.
        try cache.setKept("w", forKey: "k", tags: ["t"])
        try invalidation.apply(to: whole)
        let first = cache.keptUntil("k")
        for _ in 0..<3 {
            world.clock.advance(by: .seconds(1))
            try whole.namespace(invalidation.namespace).expireAll()
            #expect(cache.keptUntil("k") == first)
        }
        whole.settle()
        #expect(cache.keptUntil("k") == first && !whole.store.index.hasMarks)
    }

    @Test("setting the clock back does not revive it", arguments: Invalidation.allCases)
    func setBack(_ invalidation: Invalidation) throws {
        for back in [1, 30_000, 3_600_000] as [Int64] {
            var world = World { $0.sweepInterval = nil }
            var whole = try world.open()
            try whole.namespace(invalidation.namespace).setKept("v", forKey: "k", ttl: .forever, tags: ["t"])
            try invalidation.apply(to: whole)
            world.clock.set(milliseconds: world.clock.milliseconds - back)
            #expect(whole.namespace(invalidation.namespace).data(forKey: "k") == nil, "\(back) ms")
            try whole.flush()
            #expect(whole.namespace(invalidation.namespace).data(forKey: "k") == nil, "\(back) ms, flushed")
            world.restart()
            whole = try world.open()
            #expect(whole.namespace(invalidation.namespace).data(forKey: "k") == nil, "\(back) ms, restarted")
        }
    }

    @Test("must-revalidate entries remain for the source to confirm")
    func mustRevalidate() throws {
        let world = World()
        let cache = try world.open()
        try cache.setKept("v", forKey: "k", mustRevalidate: true)
        #expect(try cache.expireValue(forKey: "k"))
        #expect(cache.data(forKey: "k") == nil && cache.usable("k") == "v")
        #expect(cache.store.index.entry("k")?.mustRevalidate == true)
    }

    @Test("other tags, other namespaces and later values are not affected")
    func scopes() throws {
        let world = World { $0.sweepInterval = nil }
        let whole = try world.open()
        let (space, inner) = (whole.namespace("space"), whole.namespace("space").namespace("inner"))
        for cache in [whole, space, inner] {
            for key in ["a", "b"] { try cache.setKept(key, forKey: key, tags: [key]) }
            try cache.setString("plain", forKey: "plain")
        }
        try space.expireAll(tagged: "a")
        #expect(space.data(forKey: "a") == nil && space.string(forKey: "b") == "b" && space.usable("a") == "a")
        #expect(whole.string(forKey: "a") == "a" && inner.string(forKey: "a") == "a")
        try space.expireAll()
        #expect(space.keys() == [] && Set(whole.keys()) == ["a", "b", "plain"])
        #expect(Set(inner.keys()) == ["a", "b", "plain"])
        try space.setString("later", forKey: "a", tags: ["a"])
        try whole.namespace("").expireAll()
        #expect(whole.keys() == [] && space.keys() == ["a"] && inner.keys().count == 3)
        whole.settle()
        #expect(whole.usable("a") == "a" && whole.usable("plain") == nil && space.string(forKey: "a") == "later")
        #expect(whole.count == 2 && space.count == 2 && inner.count == 3)
        whole.checkInvariants()
        #expect(try !whole.expireValue(forKey: "nothing"))
    }

    @Test(
        "values set, copied or renewed later are fresh, before and after background work", arguments: [false, true])
    func later(settles: Bool) throws {
        var world = World { $0.sweepInterval = nil }
        var cache = try world.open()
        for key in ["set", "renewed", "renewed and expired", "kept"] {
            try cache.setKept("old", forKey: key, tags: ["t"])
        }
        try cache.expireAll(tagged: "t")
        if settles { cache.settle() }
        world.clock.advance(by: .seconds(1))
        try cache.setKept("new", forKey: "set", tags: ["t"])
        #expect(try cache.renew("renewed") && cache.renew("renewed and expired"))
        #expect(cache.string(forKey: "renewed") == "old")
        world.clock.advance(by: .seconds(1))
        #expect(try cache.expireValue(forKey: "renewed and expired"))
        func expect(_ context: Comment) {
            #expect(cache.string(forKey: "set") == "new" && cache.string(forKey: "renewed") == "old", context)
            #expect(cache.data(forKey: "renewed and expired") == nil && cache.data(forKey: "kept") == nil, context)
            #expect(cache.usable("renewed and expired") == "old" && cache.usable("kept") == "old", context)
        }
        expect("at once")
        cache.settle()
        expect("settled")
        for loss in [[], ["manifest.json"], ["journal"], ["manifest.json", "journal"]] {
            world.restart()
            for name in world.names where loss.contains(where: { name.hasPrefix($0) }) { world.remove(name) }
            cache = try world.open()
            #expect(cache.data(forKey: "kept") == nil && cache.data(forKey: "renewed and expired") == nil)
            try cache.flush()
            expect("without \(loss)")
        }
    }

    @Test("an extended sliding life ends too, and no use revives it", arguments: Invalidation.allCases)
    func sliding(_ invalidation: Invalidation) throws {
        for loses in [false, true] {
            var world = World {
                $0.slidingExpiry = true
                $0.sweepInterval = nil
            }
            var whole = try world.open()
            var cache = whole.namespace(invalidation.namespace)
            try cache.setKept("v", forKey: "k", tags: ["t"])
            world.clock.advance(by: .seconds(1_800))
            #expect(cache.string(forKey: "k") == "v")
            // One use is saved before the end, one after it.
            whole.store.sweeper.saveUses(isClosing: false)
            world.clock.advance(by: .seconds(600))
            #expect(cache.string(forKey: "k") == "v")
            try invalidation.apply(to: whole)
            world.clock.advance(by: .seconds(1))
            #expect(cache.string(forKey: "k") == nil && cache.usable("k") == "v")
            whole.store.sweeper.saveUses(isClosing: true)
            #expect(cache.string(forKey: "k") == nil)
            let end = cache.keptUntil("k")
            world.restart()
            if loses { world.loseIndex() }
            whole = try world.open()
            cache = whole.namespace(invalidation.namespace)
            #expect(cache.string(forKey: "k") == nil)
            try whole.flush()
            #expect(cache.string(forKey: "k") == nil && cache.usable("k") == "v" && cache.keptUntil("k") == end)
        }
    }

    @Test("events name the expired key, namespace or tag")
    func events() throws {
        let log = EventLog()
        let world = World {
            $0.onEvent = log.note
            $0.sweepInterval = nil
        }
        let cache = try world.open()
        let space = cache.namespace("space")
        try space.setKept("v", forKey: "k")
        try cache.setKept("v", forKey: "l", tags: ["t"])
        try space.expireValue(forKey: "k")
        try space.expireValue(forKey: "k")
        try space.expireAll()
        try cache.expireAll(tagged: "t")
        try cache.expireAll()
        let events = log.events(of: cache)
        #expect(events.map(\.kind) == [.invalidated, .invalidated, .invalidated, .invalidated])
        #expect(events.map(\.keys) == [["k"], [], [], []] && events.map(\.tag) == [nil, nil, "t", nil])
        #expect(events.map(\.namespace) == ["space", "space", nil, nil])
        #expect(events.map(\.isOfAllNamespaces) == [false, false, false, true])
        #expect("\(events[0])" == "invalidated \"k\" in namespace \"space\"")
    }

    @Test("the fetch observer is notified after the entries have ended")
    func observed() throws {
        final class Observer: ChangeObserver {
            let seen = Lock<[String]>([])

            func didChange(_ key: Key, with permit: (any WritePermit)?) { seen.withLock { $0.append(key.text) } }

            func didClear(_ scope: ClearScope, isTagged: (Key) -> Bool) {
                let tagged = ["k", "l"].filter { isTagged(Key($0)) }
                seen.withLock { $0.append("\(tagged)") }
            }
        }
        let world = World { $0.sweepInterval = nil }
        let cache = try world.open()
        try cache.setKept("v", forKey: "k", tags: ["t"])
        let observer = cache.store.observer.observer { Observer() }
        try cache.expireValue(forKey: "k")
        try cache.expireValue(forKey: "not there")
        try cache.expireAll(tagged: "t")
        #expect(observer.seen.withLock { $0 } == ["k", "not there", "[\"k\"]"])
    }

    @Test("a closed handle throws")
    func closed() throws {
        let cache = try World().open()
        try cache.close()
        #expect(code { try cache.expireValue(forKey: "k") } == .closed)
        #expect(code { try cache.expireAll() } == .closed)
        #expect(code { try cache.expireAll(tagged: "t") } == .closed)
        let long = String(repeating: "x", count: Key.longest + 1)
        #expect(code { try World().open().expireAll(tagged: long) } == .tooLarge)
    }
}
