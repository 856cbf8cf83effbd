import LarderTestSupport
import LarderTesting
import Testing

/// The calls of processes on a register that is atomic: each takes effect at one moment.
private struct RegisterHistory {
    private(set) var calls: [ObservedCall] = []

    private struct Plan {
        let caller: Int
        let operation: ObservedCall.Operation
        let begin: UInt64
        /// Nil for a killed call without effect.
        let moment: UInt64?
        let end: UInt64
        let isKilled: Bool
    }

    /// Simulates processes; of a hundred calls `killPercent` end with their process.
    init(processes: Int, callsEach: Int, killPercent: Double, using generator: inout SeededGenerator) {
        var plans: [Plan] = []
        var caller = processes
        for process in 0..<processes {
            var (name, now) = (process, UInt64.random(in: 1...500, using: &generator))
            for _ in 0..<callsEach {
                let begin = now
                // A few calls are as slow as those of a stopped process.
                let length = UInt64.random(in: 2...(generator.chance(1) ? 20_000 : 500), using: &generator)
                let isKilled = Double.random(in: 0..<100, using: &generator) < killPercent
                let delay = UInt64.random(in: 0...length, using: &generator)
                let moment = isKilled && generator.chance(50) ? nil : begin + delay
                plans.append(
                    Plan(
                        caller: name, operation: Self.operation(plans.count + 1, using: &generator), begin: begin,
                        moment: moment, end: begin + length, isKilled: isKilled))
                now = begin + length + UInt64.random(in: 1...300, using: &generator)
                if isKilled {
                    name = caller
                    caller += 1
                }
            }
        }
        var value: Int?
        for plan in plans.sorted(by: { ($0.moment ?? 0) < ($1.moment ?? 0) }) {
            let before = value
            if plan.moment != nil { value = Self.value(after: plan.operation, before) }
            let end = plan.isKilled ? nil : plan.end
            calls.append(
                ObservedCall(
                    caller: plan.caller, key: "k", plan.operation, begin: plan.begin, end: end, death: plan.end,
                    Self.result(of: plan.operation, before)))
        }
    }

    static func operation(_ new: Int, using generator: inout SeededGenerator) -> ObservedCall.Operation {
        switch Int.random(in: 0..<100, using: &generator) {
        case 0..<45: .get
        case 45..<70: .set(new)
        case 70..<78: .setIfAbsent(new)
        case 78..<86: .modify(new)
        case 86..<94: .remove
        case 94..<97: .renew
        default: .clear
        }
    }

    static func value(after operation: ObservedCall.Operation, _ value: Int?) -> Int? {
        switch operation {
        case .get, .renew: value
        case .set(let new), .modify(let new): new
        case .setIfAbsent(let new): value ?? new
        case .remove, .clear: nil
        }
    }

    static func result(of operation: ObservedCall.Operation, _ before: Int?) -> ObservedCall.Result {
        switch operation {
        case .get, .setIfAbsent, .modify: .value(before)
        case .remove, .renew: .wasDone(before != nil)
        case .set, .clear: .none
        }
    }

    /// Returns the calls, one of them with another result.
    func replacing(_ number: Int, with result: ObservedCall.Result) -> [ObservedCall] {
        var changed = calls
        let call = calls[number]
        changed[number] = ObservedCall(
            caller: call.caller, key: call.key, call.operation, begin: call.begin, end: call.end, death: call.death,
            result)
        return changed
    }

    /// Tries every order, one call after the other.
    static func isPossible(_ calls: [ObservedCall], value: Int? = nil) -> Bool {
        if calls.allSatisfy({ $0.end == nil }) { return true }
        let limit = calls.map { $0.end ?? $0.death ?? .max }.min() ?? .max
        return calls.indices.contains { number in
            var rest = calls
            let call = rest.remove(at: number)
            // It takes effect next only if no other call has to come before, or it is one that never takes effect.
            if call.end == nil, isPossible(rest, value: value) { return true }
            guard call.begin <= limit else { return false }
            if call.end != nil, call.result != .none, call.result != result(of: call.operation, value) { return false }
            return isPossible(rest, value: self.value(after: call.operation, value))
        }
    }
}

@Suite("The checker of histories, beside a model", .storm)
struct LinearizabilityModelTests {
    @Test("decides as a search through all orders does, for small histories", arguments: Sample.few(1, of: 1...4))
    func small(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var possible = 0
        for round in 0..<600 {
            var history: [ObservedCall] = []
            for number in 1...6 {
                let begin = UInt64.random(in: 1...30, using: &generator)
                let end = begin + UInt64.random(in: 1...15, using: &generator)
                let operation = RegisterHistory.operation(number, using: &generator)
                let value = Bool.random(using: &generator) ? nil : Int.random(in: 1...6, using: &generator)
                history.append(
                    ObservedCall(
                        caller: number, key: "k", operation, begin: begin, end: generator.chance(25) ? nil : end,
                        death: generator.chance(20) ? nil : end, RegisterHistory.result(of: operation, value)))
            }
            let expected = RegisterHistory.isPossible(history)
            let violations = Linearizability.violations(in: history)
            #expect(violations.isEmpty == expected, "seed \(seed), round \(round): \(history)")
            if expected {
                possible += 1
                #expect(
                    Linearizability.impossibleReads(in: history).isEmpty, "seed \(seed), round \(round): \(history)")
            }
            if let violation = violations.first {
                // Up to the call to blame, and no further, the history is possible.
                let ends = history.compactMap(\.end).sorted()
                #expect(violation.call.end == ends[violation.possibleReturns], "seed \(seed), round \(round)")
            }
        }
        #expect(possible > 20 && possible < 580, "seed \(seed): \(possible)")
    }

    @Test(
        "accepts the calls of an atomic register, and rejects wrong results among them",
        arguments: Sample.few(2, of: 1...6))
    func mutated(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let history = RegisterHistory(processes: 4, callsEach: 100, killPercent: 3, using: &generator)
        let calls = history.calls
        #expect(Linearizability.violations(in: calls).isEmpty, "seed \(seed)")
        #expect(Linearizability.impossibleReads(in: calls).isEmpty, "seed \(seed)")

        let gets = calls.indices.filter { calls[$0].operation == .get && calls[$0].end != nil }
        let get = try #require(gets.suffix(100).randomElement(using: &generator))
        expectViolation(history.replacing(get, with: .value(1_000_000)), by: calls[get], "never stored, seed \(seed)")

        // A value that was replaced before the read began, by a call that began after the value had been stored.
        let sets = calls.filter { if case .set = $0.operation { $0.end != nil } else { false } }
        let old = try #require(
            sets.first { set in
                sets.contains { $0.begin > set.end ?? .max && $0.end ?? .max < calls[get].begin }
            })
        expectViolation(history.replacing(get, with: .value(old.stored)), by: nil, "replaced, seed \(seed)")

        var found = 0
        for _ in 0..<20 {
            let number = try #require(
                calls.indices.filter { calls[$0].end != nil && calls[$0].result != .none }
                    .randomElement(using: &generator))
            let wrong: ObservedCall.Result =
                switch calls[number].result {
                case .wasDone(let wasDone): .wasDone(!wasDone)
                case .value(.some): .value(nil)
                default: .value(sets.randomElement(using: &generator)?.stored)
                }
            if !Linearizability.violations(in: history.replacing(number, with: wrong)).isEmpty { found += 1 }
        }
        #expect(found > 10, "seed \(seed): only \(found) of 20 wrong results are impossible")
    }

    /// Expects that the checker and the second opinion find a wrong result of a read.
    private func expectViolation(_ calls: [ObservedCall], by blamed: ObservedCall?, _ context: Comment) {
        let violation = Linearizability.violations(in: calls).first
        #expect(violation != nil, context)
        if let blamed { #expect(violation?.call.begin == blamed.begin, context) }
        #expect(!Linearizability.impossibleReads(in: calls).isEmpty, context)
    }

    @Test("checks thousands of calls of eight processes that are often killed")
    func large() throws {
        let seed = RunSeed.seed()
        var generator = SeededGenerator(seed: seed)
        let history = RegisterHistory(
            processes: 8, callsEach: Sample.size(2_000, usually: 500), killPercent: 2, using: &generator)
        let start = ContinuousClock.now
        #expect(Linearizability.violations(in: history.calls).isEmpty, "seed \(seed)")
        let time = ContinuousClock.now - start
        print("checker: seed \(seed), \(history.calls.count) calls in \(time)")
        let last = try #require(
            history.calls.indices.last { history.calls[$0].operation == .get && history.calls[$0].end != nil })
        let wrong = history.replacing(last, with: .value(1_000_000))
        #expect(Linearizability.violations(in: wrong).first?.call.begin == history.calls[last].begin, "seed \(seed)")
    }
}
