import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("Slots by expiry")
struct ExpiryBucketsTests {
    @Test("slots fall due in the order of their times, with few moves each", arguments: 1...8 as ClosedRange<UInt64>)
    func order(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var buckets = ExpiryBuckets()
        var now: Int64 = 1_763_632_800_000
        buckets.restart(at: Timestamp(milliseconds: now))
        var ends: [Int: Int64] = [:]
        let spans: [Int64] = [1, 10, 1000, 100_000, 100_000_000, 1 << 40]
        var (insertions, moves) = (0, 0)
        for step in 0..<20_000 {
            let slot = Int.random(in: 0..<500, using: &generator)
            let end = now + Int64.random(in: 1...(spans.randomElement(using: &generator) ?? 1), using: &generator)
            switch Int.random(in: 0..<10, using: &generator) {
            case 0..<5:
                insertions += 1
                if let old = ends[slot] {
                    buckets.move(slot, from: Timestamp(milliseconds: old), to: Timestamp(milliseconds: end))
                } else {
                    buckets.insert(slot, at: Timestamp(milliseconds: end))
                }
                ends[slot] = end
            case 5:
                if ends.removeValue(forKey: slot) != nil { buckets.remove(slot) }
            default:
                now += Int64.random(in: 0...(generator.chance(5) ? 10_000_000 : 50), using: &generator)
                let due = drain(&buckets, &ends, Timestamp(milliseconds: now), &moves)
                #expect(due == due.sorted(), "seed \(seed), step \(step)")
                #expect(ends.values.allSatisfy { $0 > now }, "seed \(seed), step \(step)")
            }
        }
        #expect(moves <= insertions * 41, "at most one move for each bit of the longest span")
    }

    /// Removes all due slots, and returns their times.
    private func drain(
        _ buckets: inout ExpiryBuckets, _ ends: inout [Int: Int64], _ now: Timestamp, _ moves: inout Int
    ) -> [Int64] {
        var due: [Int64] = []
        while true {
            switch buckets.next(at: now) {
            case .none: return due
            case .due(let slot):
                buckets.remove(slot)
                due.append(ends.removeValue(forKey: slot) ?? .max)
            case .move(let slot):
                moves += 1
                buckets.place(slot, at: Timestamp(milliseconds: ends[slot] ?? .max))
            }
        }
    }

    @Test("a time just ahead of many entries costs no search for each query")
    func noSearch() {
        var buckets = ExpiryBuckets()
        var now = Timestamp(milliseconds: 1_763_632_800_000)
        buckets.restart(at: now)
        for slot in 0..<10_000 { buckets.insert(slot, at: now.advanced(byMilliseconds: 1_000_000 + Int64(slot))) }
        var moves = 0
        for _ in 0..<10_000 {
            now = now.advanced(byMilliseconds: 99)
            while case .move(let slot) = buckets.next(at: now) {
                moves += 1
                buckets.place(slot, at: Timestamp(milliseconds: 1_763_633_800_000 + Int64(slot)))
            }
        }
        #expect(moves <= 10_000 * 21)
        guard case .none = buckets.next(at: now) else {
            Issue.record("nothing is due yet")
            return
        }
    }
}
