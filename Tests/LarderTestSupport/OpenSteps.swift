/// The calls that have begun and not ended at a moment of the search.
struct OpenSteps {
    /// The certain calls, by slot.
    private(set) var steps = [Int](repeating: -1, count: 64)
    /// The slots of certain observations and writes.
    private(set) var observations: [Int] = []
    private var writes: [Int] = []
    private var slots: [Int: Int] = [:]
    private var viewers: [LinearizationStep.Value: UInt64] = [:]
    /// The uncertain calls, by effect, first those that end first.
    private var uncertain: [[Uncertain]] = []

    private struct Uncertain {
        let number: Int
        let step: LinearizationStep
    }

    mutating func begin(_ number: Int, _ step: LinearizationStep) {
        guard step.isRequired else {
            beginUncertain(Uncertain(number: number, step: step))
            return
        }
        guard let slot = steps.firstIndex(of: -1) else { preconditionFailure("more than 64 calls at once") }
        steps[slot] = number
        slots[number] = slot
        if step.stores == nil { observations.append(slot) } else { writes.append(slot) }
        if let seen = step.seen { viewers[seen, default: 0] |= 1 << slot }
    }

    private mutating func beginUncertain(_ new: Uncertain) {
        guard
            let kind = uncertain.firstIndex(where: {
                $0[0].step.stores == new.step.stores && $0[0].step.needsAbsence == new.step.needsAbsence
            })
        else {
            uncertain.append([new])
            return
        }
        let place = uncertain[kind].firstIndex { $0.step.end > new.step.end } ?? uncertain[kind].endIndex
        uncertain[kind].insert(new, at: place)
    }

    mutating func end(_ number: Int) {
        guard let slot = slots.removeValue(forKey: number) else {
            for kind in uncertain.indices { uncertain[kind].removeAll { $0.number == number } }
            uncertain.removeAll { $0.isEmpty }
            return
        }
        steps[slot] = -1
        observations.removeAll { $0 == slot }
        writes.removeAll { $0 == slot }
        for (value, mask) in viewers where mask & 1 << slot != 0 {
            viewers[value] = mask == 1 << slot ? nil : mask & ~(1 << slot)
        }
    }

    /// The slot of a certain call.
    func slot(of number: Int) -> Int? { slots[number] }

    /// The slots of the open observations that saw a value, and of other calls that did.
    func viewers(of value: LinearizationStep.Value) -> UInt64 { viewers[value] ?? 0 }

    /// Returns the writes that a state has not seen: the certain ones, and the first uncertain one of each effect.
    func candidates(in state: LinearizationState) -> [Int] {
        var found: [Int] = []
        for slot in writes where state.written & 1 << slot == 0 { found.append(steps[slot]) }
        for kind in uncertain {
            if let first = kind.first(where: { !state.spent.contains($0.number) }) { found.append(first.number) }
        }
        return found
    }
}

extension LinearizationStep {
    /// Whether it stores only where there is no value.
    fileprivate var needsAbsence: Bool { if case .exactly = requirement { true } else { false } }
}
