import LarderTestSupport
import LarderTesting
import Testing

@Suite("The checker of histories")
struct LinearizabilityTests {
    private typealias Call = ObservedCall

    private func call(
        _ operation: Call.Operation, _ begin: UInt64, _ end: UInt64?, _ result: Call.Result = .none
    ) -> Call {
        Call(caller: 0, key: "k", operation, begin: begin, end: end, result)
    }

    private func killed(_ operation: Call.Operation, _ begin: UInt64, death: UInt64?) -> Call {
        Call(caller: 0, key: "k", operation, begin: begin, end: nil, death: death)
    }

    private func isPossible(_ calls: Call..., slack: UInt64 = 0) -> Bool {
        Linearizability.violations(in: calls, slack: slack).isEmpty
    }

    private func get(_ begin: UInt64, _ end: UInt64, _ value: Int?) -> Call { call(.get, begin, end, .value(value)) }

    @Test("accepts calls one after another, and no stale read")
    func sequential() {
        #expect(isPossible(get(1, 2, nil), call(.set(1), 3, 4), get(5, 6, 1)))
        #expect(!isPossible(call(.set(1), 1, 2), call(.set(2), 3, 4), get(5, 6, 1)))
        #expect(!isPossible(call(.set(1), 1, 2), get(3, 4, nil)))
        #expect(!isPossible(get(1, 2, 7)), "nobody stored it")
        #expect(!isPossible(get(1, 2, 7), call(.set(7), 3, 4)), "nobody had stored it yet")
    }

    @Test("accepts no removed value that comes back")
    func resurrected() {
        #expect(!isPossible(call(.set(1), 1, 2), call(.remove, 3, 4, .wasDone(true)), get(5, 6, 1)))
        #expect(!isPossible(call(.set(1), 1, 2), call(.clear, 3, 4), get(5, 6, 1)))
        #expect(!isPossible(call(.set(1), 1, 2), call(.remove, 3, 4), get(5, 6, 1)))
        #expect(!isPossible(call(.set(1), 1, 2), get(3, 4, 1), get(5, 6, nil), get(7, 8, 1)))
    }

    @Test("believes a removal and a renewal about whether there was a value")
    func presence() {
        #expect(!isPossible(call(.set(1), 1, 2), call(.remove, 3, 4, .wasDone(false))))
        #expect(!isPossible(call(.remove, 3, 4, .wasDone(true))))
        #expect(!isPossible(call(.set(1), 1, 2), call(.renew, 3, 4, .wasDone(false))))
        #expect(!isPossible(call(.renew, 3, 4, .wasDone(true))))
        #expect(isPossible(call(.set(1), 1, 5), call(.renew, 3, 4, .wasDone(false)), get(6, 7, 1)))
        #expect(
            !isPossible(call(.set(1), 1, 2), call(.remove, 3, 9, .wasDone(true)), call(.remove, 3, 9, .wasDone(true))))
    }

    @Test("orders calls side by side as their results need it")
    func concurrent() {
        #expect(isPossible(call(.set(1), 1, 9), get(2, 3, nil), get(4, 5, 1)))
        #expect(!isPossible(call(.set(1), 1, 9), get(2, 3, 1), get(4, 5, nil)))
        #expect(isPossible(call(.set(1), 1, 9), call(.set(2), 1, 9), get(2, 3, 2), get(4, 5, 1)))
        #expect(!isPossible(call(.set(1), 1, 9), call(.set(2), 1, 9), get(2, 3, 2), get(4, 5, 1), get(6, 7, 2)))
        #expect(!isPossible(call(.set(1), 1, 3), call(.set(2), 1, 3), get(4, 5, 2), get(6, 7, 1)))
        #expect(isPossible(call(.set(1), 1, 9), call(.set(2), 2, 3), get(10, 11, 2)), "nobody has seen the other value")
    }

    @Test("accepts no lost update, and of two calls that found nothing only one")
    func conditional() {
        #expect(!isPossible(call(.modify(1), 1, 9, .value(nil)), call(.modify(2), 1, 9, .value(nil))))
        #expect(isPossible(call(.modify(1), 1, 9, .value(nil)), call(.modify(2), 1, 9, .value(1))))
        #expect(!isPossible(call(.set(1), 1, 2), call(.set(2), 3, 4), call(.modify(3), 5, 6, .value(1))))
        #expect(
            !isPossible(
                call(.set(1), 1, 2), call(.modify(2), 3, 9, .value(1)), call(.modify(3), 3, 9, .value(1)),
                get(10, 11, 2)))
        #expect(!isPossible(call(.setIfAbsent(1), 1, 9, .value(nil)), call(.setIfAbsent(2), 1, 9, .value(nil))))
        #expect(isPossible(call(.setIfAbsent(1), 1, 9, .value(2)), call(.setIfAbsent(2), 1, 9, .value(nil))))
        #expect(!isPossible(call(.setIfAbsent(1), 1, 9, .wasDone(true)), call(.setIfAbsent(2), 1, 9, .wasDone(true))))
        #expect(!isPossible(call(.setIfAbsent(1), 1, 9, .wasDone(false))))
    }

    @Test("lets a killed call take effect once or never")
    func killed() {
        let set = killed(.set(1), 1, death: 20)
        #expect(isPossible(set, get(2, 3, nil), get(4, 5, 1), get(30, 31, 1)))
        #expect(isPossible(set, get(2, 3, nil), get(4, 5, nil), get(30, 31, nil)))
        #expect(isPossible(set, get(2, 3, nil), get(30, 31, 1)))
        #expect(!isPossible(set, get(2, 3, 1), get(4, 5, nil)))
        #expect(!isPossible(set, get(2, 3, 1), get(4, 5, nil), get(6, 7, 1)), "it appears, disappears and appears")
        #expect(!isPossible(set, get(2, 3, 1), call(.set(2), 4, 5), get(6, 7, 1)))
        #expect(isPossible(set, call(.remove, 2, 3, .wasDone(true)), get(4, 5, nil)), "nobody else has seen it")
        #expect(
            !isPossible(set, call(.remove, 2, 3, .wasDone(true)), call(.remove, 4, 5, .wasDone(true))), "only once")
    }

    @Test("lets no call take effect after the death of its caller")
    func dead() {
        let set = killed(.set(1), 1, death: 20)
        #expect(!isPossible(set, get(21, 22, nil), get(23, 24, 1)))
        #expect(isPossible(set, get(21, 22, nil), get(23, 24, 1), slack: 5))
        #expect(!isPossible(set, call(.set(2), 21, 22), get(23, 24, 1)))
        #expect(!isPossible(set, get(21, 22, nil), call(.remove, 23, 24, .wasDone(true))))
        #expect(isPossible(call(.set(2), 1, 2), killed(.clear, 3, death: 5), get(6, 7, nil)))
        #expect(!isPossible(call(.set(2), 1, 2), killed(.clear, 3, death: 5), get(6, 7, 2), get(8, 9, nil)))
    }

    @Test("follows a hundred killed calls of which each may take effect at any time")
    func unlimited() {
        var calls = (0..<100).map { killed(.set(100 + $0), UInt64($0) * 40 + 1, death: nil) }
        calls += (0..<2_000).map { get(UInt64($0) * 2 + 1, UInt64($0) * 2 + 2, nil) }
        calls.append(get(5_000, 5_001, 199))
        #expect(Linearizability.violations(in: calls).isEmpty)
        calls.append(get(5_002, 5_003, nil))
        #expect(Linearizability.violations(in: calls).count == 1)
    }

    @Test("blames the call that returned something impossible, and not a later one")
    func blame() throws {
        let calls = [
            call(.set(1), 1_000, 2_000), call(.set(2), 3_000, 4_000), call(.set(3), 5_000, 60_000),
            get(6_000, 7_000, 1), get(8_000, 9_000, 2), get(9_000, 9_500, 3), get(70_000, 80_000, 9),
        ]
        let violation = try #require(Linearizability.violations(in: calls).first)
        #expect(violation.call.begin == 6_000 && violation.possibleReturns == 2)
        #expect(violation.possible == [2, 3])
        #expect(
            violation.description == """
                impossible after 2 possible calls: process 0, 5.0 - 6.0 us: get k -> 1
                  values that k may have had: 2, 3; calls before and beside it, from 1000 ns:
                    process 0, 0.0 - 1.0 us: set k to 1 -> returned
                    process 0, 2.0 - 3.0 us: set k to 2 -> returned
                    process 0, 4.0 - unfinished, dead at 59.0 us: set k to 3
                """)
    }

    @Test("has a cheap second opinion about reads")
    func secondOpinion() {
        func reasons(_ calls: Call...) -> [String] { Linearizability.impossibleReads(in: calls).map(\.reason) }
        let replaced = "it saw a value that had been replaced or removed"
        #expect(reasons(call(.set(1), 1, 2), get(3, 4, 1), call(.clear, 5, 6), get(7, 8, nil)) == [])
        #expect(reasons(get(1, 2, 7)) == ["it saw a value that nobody stored"])
        #expect(reasons(get(1, 2, 7), call(.set(7), 3, 4)) == ["it saw a value before it was stored"])
        #expect(reasons(call(.set(1), 1, 2), call(.set(2), 3, 4), get(5, 6, 1)) == [replaced])
        #expect(reasons(call(.set(1), 1, 2), call(.remove, 3, 4, .wasDone(true)), get(5, 6, 1)) == [replaced])
        #expect(reasons(call(.set(1), 1, 2), get(3, 4, nil)) == ["it missed a value that nobody removed"])
        #expect(reasons(call(.set(1), 1, 2), killed(.clear, 1, death: nil), get(3, 4, nil)) == [])
        #expect(reasons(killed(.set(1), 1, death: 2), call(.set(2), 3, 4), get(5, 6, 1)) == [replaced])
    }
}
