/// A value that a key may have, and the open calls that have led to it.
struct LinearizationState {
    var value: LinearizationStep.Value
    /// A bit for the slot of each open observation that has taken effect.
    var observed: UInt64 = 0
    /// A bit for the slot of each open write that has taken effect.
    var written: UInt64 = 0
    /// The uncertain calls that have taken effect, in the order of their numbers.
    var spent: [Int] = []

    func hasDone(_ slot: Int) -> Bool { (observed | written) & 1 << slot != 0 }

    mutating func spend(_ step: Int) {
        spent.append(step)
        spent.sort()
    }

    /// Whether everything that is possible after `other` is possible after this state as well.
    func dominates(_ other: LinearizationState) -> Bool {
        other.observed & ~observed == 0 && spent.allSatisfy { other.spent.contains($0) }
    }
}

/// States none of which dominates another.
struct LinearizationFrontier {
    private struct Core: Hashable {
        let value: LinearizationStep.Value
        let written: UInt64
    }

    /// Few states are compared one by one, many are found by their core.
    private static let few = 16
    private(set) var states: [LinearizationState] = []
    private var places: [Core: [Int]] = [:]

    var isEmpty: Bool { states.isEmpty }

    /// Adds a state and drops those that it dominates. Returns false when another dominates it.
    @discardableResult
    mutating func insert(_ state: LinearizationState) -> Bool {
        let core = Core(value: state.value, written: state.written)
        var dominated: Int?
        for place in candidates(core) {
            let other = states[place]
            guard other.value == state.value, other.written == state.written else { continue }
            if other.dominates(state) { return false }
            if dominated == nil, state.dominates(other) { dominated = place }
        }
        if let dominated {
            // The new state takes the place of the first one; any further one costs time, but no correctness.
            states[dominated] = state
            return true
        }
        states.append(state)
        if states.count > Self.few {
            places[core, default: []].append(states.count - 1)
        } else if states.count == Self.few {
            for (place, state) in states.enumerated() {
                places[Core(value: state.value, written: state.written), default: []].append(place)
            }
        }
        return true
    }

    private func candidates(_ core: Core) -> [Int] {
        states.count < Self.few ? Array(states.indices) : places[core] ?? []
    }

    /// Returns the states in which the call of a slot has taken effect, without it.
    func ending(_ slot: Int) -> LinearizationFrontier {
        map { state in
            state.observed &= ~(1 << slot)
            state.written &= ~(1 << slot)
        }
    }

    /// Returns the states without an uncertain call whose time is over.
    func forgetting(_ step: Int) -> LinearizationFrontier {
        map { state in state.spent.removeAll { $0 == step } }
    }

    /// Returns the states after the last call has returned that saw a value.
    func forgetting(value: LinearizationStep.Value) -> LinearizationFrontier {
        map { state in if state.value == value { state.value = LinearizationValues.unseen } }
    }

    private func map(_ change: (inout LinearizationState) -> Void) -> LinearizationFrontier {
        var next = LinearizationFrontier()
        for var state in states {
            change(&state)
            next.insert(state)
        }
        return next
    }
}
