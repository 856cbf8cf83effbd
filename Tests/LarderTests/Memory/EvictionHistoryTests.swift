import LarderTesting
import Testing

@testable import Larder

@Suite("The history of an adaptive cache")
struct EvictionHistoryTests {
    @Test("remembers a refused key for as many departures as there are entries, and others half as long again")
    func memory() {
        for capacity in [1, 10, 33, 1000] {
            for (way, last) in [(EvictionHistory.Way.refused, capacity), (.givenUp, capacity + capacity / 2)] {
                let steps = (last / 2, last + last / 8 + 8)
                var found = (0, 0)
                for key in 0..<UInt32(100) {
                    for (number, count) in [steps.0, steps.1].enumerated() {
                        var history = EvictionHistory()
                        history.fit(capacity)
                        history.add(key &* 7919, way)
                        for other in 0..<UInt32(max(0, count)) { history.add(1_000_003 &* (other + 1), .givenUp) }
                        guard history.take(key &* 7919) == way else { continue }
                        if number == 0 { found.0 += 1 } else { found.1 += 1 }
                    }
                }
                #expect(found.0 >= 80 && found.1 == 0, "\(capacity) \(way): \(found)")
            }
        }
    }

    @Test("forgets what it has told, and what nobody has asked for twice")
    func taking() {
        var history = EvictionHistory()
        #expect(history.take(1) == nil)
        history.fit(8)
        history.add(1, .refused)
        history.add(2, .givenUp)
        #expect(history.take(1) == .refused && history.take(1) == nil)
        #expect(history.take(2) == .givenUp && history.take(3) == nil)
    }

    @Test("takes at most 12 bytes for each entry, and follows the number of entries")
    func size() {
        var history = EvictionHistory()
        for entries in [100, 140, 1_000, 700, 300, 90] {
            history.fit(entries)
            #expect(history.bytes <= 12 * entries + 64, "\(entries)")
            history.add(5, .refused)
            #expect(history.take(5) == .refused)
        }
        history.add(6, .refused)
        history.fit(history.capacity + 1)
        #expect(history.take(6) == .refused, "a small change forgets nothing")
    }
}

@Suite("Regrets")
struct RegretsTests {
    private func regrets(_ way: EvictionHistory.Way, _ count: Int) -> Regrets {
        var regrets = Regrets()
        for key in 0..<UInt32(count) {
            regrets.noteEvicted(key, way, entries: 100)
            #expect(regrets.noteStored(key) == 1)
        }
        return regrets
    }

    @Test("let newcomers in after wrong refusals, and keep them out after wrong admissions")
    func threshold() {
        #expect(Regrets().threshold == 0)
        #expect(regrets(.refused, 6).threshold == -1 && regrets(.refused, 1000).bias == -1)
        #expect(regrets(.givenUp, 10).threshold == 1 && regrets(.givenUp, 1000).bias == 1)
        var swayed = regrets(.refused, 1000)
        for key in 0..<UInt32(40) {
            swayed.noteEvicted(key, .givenUp, entries: 100)
            _ = swayed.noteStored(key)
        }
        #expect(swayed.threshold == 1, "it turns back at once")
        #expect(swayed.noteStored(7) == 0, "a key that has not left begins without hits")
    }
}
