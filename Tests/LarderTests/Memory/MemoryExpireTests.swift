import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("Lives in memory that a caller ends early")
struct MemoryExpireTests: RemovalTests {
    typealias Value = String

    let clock = ManualClock()
    let told = Lock<[String]>([])

    private func insert(
        _ key: String, ttl: Int64 = 100_000, keptStale: Int64, tags: [String] = [],
        _ cache: MemoryCache<String, String>
    ) {
        let life = MemoryLife(begun: clock.now, expires: clock.now.advanced(byMilliseconds: ttl))
        let extra = MemoryExtra(metadata: ["m": "x"], keptStale: keptStale, tags: tags.map { Key($0) })
        cache.release(cache.insertKept("v", forKey: key, life: life, cost: 1, extra).demand)
    }

    private func expire(_ key: String, _ cache: MemoryCache<String, String>) -> Bool {
        let gone = cache.expireKept(key)
        cache.release(gone.demand)
        return gone.wasFresh
    }

    @Test("a value with a stale window is stale from now on, for the length of its window")
    func kept() throws {
        let cache = cache()
        insert("k", keptStale: 20_000, cache)
        clock.advance(by: .seconds(5))
        #expect(expire("k", cache))
        expectTold([])
        #expect(cache.peekValue(forKey: "k") == nil && cache["k"] == nil && !cache.hasValue(forKey: "k"))
        let found = try #require(cache.findKept("k", at: clock.now))
        #expect(found.value == "v" && found.expired == clock.now)
        #expect(cache.kept("k", at: clock.now)?.extra.metadata == ["m": "x"])
        clock.advance(by: .milliseconds(19_999))
        #expect(cache.removeExpired() == 0)
        clock.advance(by: .milliseconds(1))
        #expect(cache.removeExpired() == 1)
        expectTold(["k v expired"])
    }

    @Test("other values are removed; absences, missing and expired entries are not fresh values")
    func removed() {
        let cache = cache()
        cache["k"] = "v"
        #expect(expire("k", cache))
        expectTold(["k v invalidated"])
        #expect(cache.count == 0 && cache.statistics.expirations == 1)
        #expect(!expire("k", cache))
        let life = MemoryLife(begun: clock.now, expires: clock.now.advanced(byMilliseconds: 1000))
        cache.release(cache.insertAbsence("absent", life: life, MemoryExtra()).demand)
        #expect(!expire("absent", cache) && cache.count == 0)
        insert("stale", ttl: 1000, keptStale: 20_000, cache)
        clock.advance(by: .seconds(2))
        let before = cache.entryLife("stale")
        #expect(!expire("stale", cache) && cache.entryLife("stale") == before && cache.count == 1)
        expectTold([])
    }

    @Test("all lives end at once, even those that seem to begin in the future")
    func all() {
        let cache = cache { $0.ageLimit = .seconds(1000) }
        for number in 0..<200 { cache["\(number)"] = "v" }
        insert("kept", keptStale: 20_000, cache)
        insert("tagged", keptStale: 20_000, tags: ["t"], cache)
        clock.set(milliseconds: clock.milliseconds - 120_000)
        cache["now"] = "v"
        cache.release(cache.expireAllKept())
        expectTold(Set((0..<200).map { "\($0) v invalidated" } + ["now v invalidated"]))
        #expect(cache.count == 2 && cache.cost == 2 && cache.values() == [])
        clock.advance(by: .seconds(10))
        #expect(cache["kept"] == nil)
        cache.release(cache.expireAllKept())
        #expect(cache.count == 2)
        clock.advance(by: .seconds(10))
        #expect(cache.removeExpired() == 2)
    }

    @Test("the lives of a tag end, and its keys are reported even if they had expired")
    func tagged() {
        let cache = cache()
        insert("fresh", keptStale: 20_000, tags: ["t", "u"], cache)
        insert("unkept", keptStale: 0, tags: ["t"], cache)
        insert("stale", ttl: 1000, keptStale: 20_000, tags: ["t"], cache)
        insert("other", keptStale: 20_000, tags: ["u"], cache)
        cache["none"] = "v"
        clock.advance(by: .seconds(2))
        let gone = cache.expireAllKept(tagged: Key("t"))
        cache.release(gone.demand)
        #expect(gone.keys == ["fresh", "unkept", "stale"])
        expectTold(["unkept v invalidated"])
        #expect(Set(cache.keys()) == ["other", "none"] && cache.count == 4)
        #expect(cache.findKept("fresh", at: clock.now)?.expired == clock.now)
        #expect(cache.expireAllKept(tagged: Key("missing")).keys == [])
    }

    @Test("a value unused for too long is removed for its age")
    func aged() {
        let cache = cache { $0.ageLimit = .seconds(5) }
        insert("k", keptStale: 20_000, cache)
        clock.advance(by: .milliseconds(5_001))
        #expect(!expire("k", cache) && cache.count == 0)
        expectTold(["k v age"])
    }
}
