/// Follows all values that a key may have had, side by side, through the calls in the order of time (Lowe, "Testing for
/// linearizability", 2017). Exact.
///
/// Calls take effect as late as possible: just before one returns that needs them. A state is the value, the open calls
/// that have taken effect, and the uncertain ones that were used. Five rules keep the states few:
///
/// - An observation takes effect in the first state that allows it. It changes nothing, so later is never better.
/// - A state that has used more uncertain calls than another, and is otherwise equal, is dropped.
/// - An uncertain write whose value was seen is certain, and took effect before the first call that saw it returned.
/// - All values that nobody sees are one value. Of the uncertain calls that store it, or remove, the one that ends
///   first is used first: exchanging two leaves a history possible.
/// - A value that a later call sees cannot be replaced yet.
struct LinearizationSearch {
    typealias Value = LinearizationStep.Value

    private struct Event {
        let time: UInt64
        let isEnd: Bool
        let step: Int
    }

    private let values: LinearizationValues
    private let steps: [LinearizationStep]
    private let events: [Event]
    private let initial: Value
    private var open = OpenSteps()
    private var frontier = LinearizationFrontier()
    /// The number of calls that have seen a value and have not returned, by value.
    private var viewers: [Int]

    init(_ calls: [ObservedCall], initial: Int?, slack: UInt64, naming: Set<Int> = []) {
        let values = LinearizationValues(calls, initial: initial, naming: naming)
        let steps = calls.compactMap { LinearizationStep($0, values, slack: slack) }
        var viewers = [Int](repeating: 0, count: values.names.count)
        for step in steps { if let seen = step.seen { viewers[seen] += 1 } }
        var events: [Event] = []
        for (number, step) in steps.enumerated() {
            events.append(Event(time: step.begin, isEnd: false, step: number))
            if step.end != .max { events.append(Event(time: step.end, isEnd: true, step: number)) }
        }
        events.sort { ($0.time, $0.isEnd ? 1 : 0) < ($1.time, $1.isEnd ? 1 : 0) }
        (self.values, self.steps, self.events, self.viewers) = (values, steps, events, viewers)
        self.initial = values.number(of: initial)
        frontier.insert(LinearizationState(value: self.initial))
    }

    /// Returns the time of the first event after which no value is possible; nil when the calls are possible.
    mutating func firstContradiction() -> UInt64? {
        for event in events {
            handle(event)
            if frontier.isEmpty { return event.time }
        }
        return nil
    }

    /// Returns the values that the key may have from one moment until another, given all events until then.
    mutating func possibleValues(from begin: UInt64, to end: UInt64) -> [Int?] {
        var numbers: Set<Value> = []
        for event in events where event.time < end || (event.time == end && !event.isEnd) {
            if event.time > begin { numbers.formUnion(reachable(from: frontier, until: nil).states.map(\.value)) }
            handle(event)
        }
        numbers.formUnion(reachable(from: frontier, until: nil).states.map(\.value))
        return numbers.filter { $0 != LinearizationValues.unseen }.map { values.names[$0] }
            .sorted { ($0 ?? .min) < ($1 ?? .min) }
    }

    private mutating func handle(_ event: Event) {
        let step = steps[event.step]
        if !event.isEnd {
            open.begin(event.step, step)
            if step.stores == nil { frontier = observed(frontier) }
            return
        }
        let done = reachable(from: frontier, until: event.step)
        if let slot = open.slot(of: event.step) {
            frontier = done.ending(slot)
            if let seen = step.seen { endView(of: seen) }
        } else {
            // It has taken effect by now, or never.
            for state in done.states { frontier.insert(state) }
            frontier = frontier.forgetting(event.step)
        }
        open.end(event.step)
    }

    /// Counts a call that saw a value and has returned. After the last one the value is like all unseen ones.
    private mutating func endView(of value: Value) {
        viewers[value] -= 1
        if viewers[value] == 0, !values.isNamed(value) { frontier = frontier.forgetting(value: value) }
    }

    /// Lets each observation take effect in the states that allow it.
    private func observed(_ frontier: LinearizationFrontier) -> LinearizationFrontier {
        var next = LinearizationFrontier()
        for state in frontier.states { next.insert(observed(state)) }
        return next
    }

    private func observed(_ state: LinearizationState) -> LinearizationState {
        var state = state
        for slot in open.observations where state.observed & 1 << slot == 0 {
            if steps[open.steps[slot]].isPossible(on: state.value) { state.observed |= 1 << slot }
        }
        return state
    }

    /// Returns the states that the open calls lead to: those in which a step has just taken effect, or all.
    private func reachable(from frontier: LinearizationFrontier, until step: Int?) -> LinearizationFrontier {
        func isDone(_ state: LinearizationState) -> Bool {
            guard let step else { return false }
            return open.slot(of: step).map(state.hasDone) ?? state.spent.contains(step)
        }
        var found = LinearizationFrontier()
        var visited = frontier
        var waiting: [LinearizationState] = []
        for state in frontier.states {
            if isDone(state) { found.insert(state) } else { waiting.append(state) }
        }
        while let state = waiting.popLast() {
            for candidate in open.candidates(in: state) {
                guard let next = after(candidate, in: state), visited.insert(next) else { continue }
                if isDone(next) { found.insert(next) } else { waiting.append(next) }
            }
        }
        return step == nil ? visited : found
    }

    /// Returns the state after a write, if it can take effect.
    private func after(_ number: Int, in state: LinearizationState) -> LinearizationState? {
        let step = steps[number]
        guard let stored = step.stores, step.isPossible(on: state.value) else { return nil }
        var next = state
        if let slot = open.slot(of: number) {
            next.written |= 1 << slot
        } else {
            if stored == state.value { return nil }
            next.spend(number)
        }
        if stored != state.value, viewers[state.value] > 0 {
            let done = open.viewers(of: state.value) & state.observed
            guard viewers[state.value] == done.nonzeroBitCount + (step.seen == state.value ? 1 : 0) else { return nil }
        }
        next.value = stored
        return observed(next)
    }
}
