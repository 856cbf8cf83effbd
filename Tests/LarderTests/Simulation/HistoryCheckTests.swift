import LarderTesting
import Testing

@testable import LarderSimulation

/// The checker of stories must find what is wrong, or it would agree to everything.
@Suite("The history of a key")
struct HistoryCheckTests {
    private static let day: Int64 = 86_400_000

    private typealias Effect = History.Effect

    private static func content(_ value: Int, until end: Int64 = day) -> History.Content {
        History.Content(value: value, from: end, to: end, life: 100)
    }

    /// Operations as (begin, end, effect). Without an end: by the limit, or never.
    private func isPossible(
        _ operations: [(Int, Int?, History.Effect)], limit: Int = 1_000, changes: [(Int, History.Change)] = [],
        tags: [Int: History.Tagging] = [:], evicts: Bool = false, slides: Bool = false
    ) -> Bool {
        var history = History(slides: slides, evicts: evicts, tags: tags, now: 0)
        let operations = operations.enumerated().map { number, operation in
            History.Operation(
                effect: operation.2, begin: operation.0, end: operation.1, limit: limit, origin: number)
        }
        return history.contradiction(operations, changes) == nil
    }

    @Test("knows values that were replaced, lost, or came back")
    func values() {
        let set1: (Int, Int?, History.Effect) = (1, 2, .write(Self.content(1)))
        let set2: (Int, Int?, History.Effect) = (3, 4, .write(Self.content(2)))
        #expect(isPossible([set1, set2, (5, 6, .read(2))]))
        #expect(!isPossible([set1, set2, (5, 6, .read(1))]), "replaced")
        #expect(!isPossible([set1, (5, 6, .read(nil))]), "lost")
        #expect(!isPossible([set1, (3, 4, .remove(true, start: 0)), (5, 6, .read(1))]), "came back")
        #expect(!isPossible([set1, (3, 4, .remove(false, start: 0))]), "overlooked")
        #expect(!isPossible([(1, 2, .read(1))]), "never stored")
        #expect(isPossible([set1, set2, (5, 6, .read(nil))], evicts: true))
        #expect(!isPossible([set1, set2, (5, 6, .read(1))], evicts: true), "evicting brings nothing back")
    }

    @Test("lets calls at the same time happen in either order, but in one for all")
    func order() {
        let sets: [(Int, Int?, History.Effect)] = [
            (1, 10, .write(Self.content(1))), (1, 10, .write(Self.content(2))),
        ]
        #expect(isPossible(sets + [(11, 12, .read(1)), (13, 14, .read(1))]))
        #expect(isPossible(sets + [(11, 12, .read(2)), (13, 14, .read(2))]))
        #expect(!isPossible(sets + [(11, 12, .read(1)), (13, 14, .read(2))]))
        #expect(isPossible(sets + [(2, 3, .read(1)), (4, 5, .read(2))]))
    }

    @Test("lets a call without an end happen until its limit, once or never")
    func unfinished() {
        let set: (Int, Int?, History.Effect) = (1, nil, .write(Self.content(1)))
        #expect(isPossible([set, (5, 6, .read(nil)), (7, 8, .read(1))]))
        #expect(!isPossible([set, (5, 6, .read(nil)), (7, 8, .read(1))], limit: 4))
        #expect(!isPossible([set, (5, 6, .read(1)), (7, 8, .read(nil))]))
    }

    @Test("knows when a value has expired")
    func lives() {
        let set: (Int, Int?, History.Effect) = (1, 2, .write(Self.content(1, until: 100)))
        #expect(isPossible([set, (5, 6, .read(nil))], changes: [(4, .time(100))]))
        #expect(!isPossible([set, (5, 6, .read(1))], changes: [(4, .time(100))]))
        #expect(!isPossible([set, (5, 6, .read(nil))], changes: [(4, .time(99))]))
        #expect(isPossible([set, (3, 6, .read(1))], changes: [(4, .time(100))]), "it was read before")
        #expect(
            isPossible(
                [set, (5, 6, .read(1)), (8, 9, .read(1))], changes: [(4, .time(50)), (7, .time(120))], slides: true))
        #expect(!isPossible([set, (8, 9, .read(1))], changes: [(4, .time(50)), (7, .time(120))], slides: true))
        let killed = [set, (5, nil, .use(start: 50)), (8, 9, .read(1))]
        #expect(isPossible(killed, changes: [(4, .time(50)), (7, .time(120))], slides: true), "perhaps used")
        #expect(!isPossible(killed, limit: 6, changes: [(4, .time(50)), (7, .time(150))], slides: true))
        let other = Self.content(2)
        for use in [History.Effect.read(1, start: 0), .writeIfAbsent(other, seen: 1, start: 0)] {
            let beside = [set, (3, 9, use), (5, 6, .read(nil)), (10, 11, .read(1))]
            #expect(isPossible(beside, changes: [(4, .time(120))], slides: true), "extended after the miss")
            #expect(!isPossible(beside, changes: [(4, .time(120))]))
        }
        var longer = Self.content(0, until: 200)
        longer.life = 200
        let renewed = [set, (3, 4, .renew(longer, true, start: 0)), (6, 7, .read(1)), (9, 10, .read(1))]
        #expect(isPossible(renewed, changes: [(5, .time(190)), (8, .time(380))], slides: true))
        #expect(!isPossible(renewed, changes: [(5, .time(190)), (8, .time(390))], slides: true))
    }

    @Test("lets calls that began before an eviction change the value that they saw")
    func evictions() {
        let calls: [(Int, Int?, History.Effect)] = [
            (1, 2, .write(Self.content(1))), (4, nil, .evict), (5, 6, .read(nil)),
        ]
        let change = History.Effect.modify(Self.content(2), seen: 1, start: 0)
        #expect(isPossible(calls + [(3, 7, change), (8, 9, .read(2))]))
        #expect(!isPossible(calls + [(7, 8, change), (9, 10, .read(2))]), "the value was gone")
    }

    @Test("knows which values a tag clears")
    func tags() {
        let calls: [(Int, Int?, History.Effect)] = [
            (1, 2, .write(Self.content(1))), (3, 4, .clear(onlyTagged: true)), (5, 6, .read(1)),
        ]
        #expect(isPossible(calls, tags: [1: .untagged]))
        #expect(!isPossible(calls, tags: [1: .tagged]))
        #expect(isPossible(calls, tags: [1: .perhaps]))
    }

    @Test("accepts what damage and power cuts may do, and no more")
    func damage() {
        let set: (Int, Int?, History.Effect) = (1, 2, .write(Self.content(1)))
        let removed: [(Int, Int?, History.Effect)] = [set, (3, 4, .remove(true, start: 0)), (6, 7, .read(1))]
        #expect(isPossible(removed, changes: [(5, .forgets)]))
        #expect(!isPossible(removed, changes: [(5, .mayMiss(true))]))
        #expect(isPossible([set, (6, 7, .read(nil)), (8, 9, .read(1))], changes: [(5, .mayMiss(true))]))
        #expect(!isPossible([set, (6, 7, .read(nil)), (8, 9, .read(1))], changes: [(5, .mayVanish)]))
    }
}
