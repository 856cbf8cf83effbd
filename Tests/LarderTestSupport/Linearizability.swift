/// A call on one key, as it was observed. Values are unique numbers.
package struct ObservedCall: Sendable, CustomStringConvertible {
    package enum Operation: Sendable, Equatable {
        case get
        case set(Int)
        /// The result is the value that was there.
        case setIfAbsent(Int)
        /// The result tells whether there was a value.
        case remove
        /// Replaces any value, or none. The result is the value that it replaced.
        case modify(Int)
        /// Removes this and other keys; tells nothing about this one.
        case clear
    }

    package enum Result: Sendable, Equatable {
        case none
        case value(Int?)
        case wasDone(Bool)
    }

    package let caller: Int
    package let key: String
    package let operation: Operation
    /// Nanoseconds of a monotonic clock.
    package let begin: UInt64
    /// Nil when the caller was killed during the call: it may have taken effect, or may do so later.
    package let end: UInt64?
    package let result: Result

    package init(
        caller: Int, key: String, _ operation: Operation, begin: UInt64, end: UInt64?, _ result: Result = .none
    ) {
        self.caller = caller
        self.key = key
        self.operation = operation
        self.begin = begin
        self.end = end
        self.result = result
    }

    package var description: String {
        "\(key): \(operation) -> \(end == nil ? "killed" : "\(result)") by \(caller), \(begin)...\(end ?? 0)"
    }

    /// Returns the value of the key after the call at a moment when it had `value`; nil when the result tells that the
    /// call did not take effect then.
    fileprivate func effect(on value: Int?) -> Int?? {
        let isKnown = end != nil
        switch operation {
        case .get: return result == .value(value) ? .some(value) : nil
        case .set(let new): return .some(new)
        case .setIfAbsent(let new):
            return isKnown && result != .value(value) ? nil : .some(value ?? new)
        case .remove: return isKnown && result != .wasDone(value != nil) ? nil : .some(nil)
        case .modify(let new): return isKnown && result != .value(value) ? nil : .some(new)
        case .clear: return .some(nil)
        }
    }

    /// The value that the call may have stored.
    fileprivate var stored: Int? {
        switch operation {
        case .set(let value), .setIfAbsent(let value), .modify(let value): value
        case .get, .remove, .clear: nil
        }
    }

    /// The value that the call has seen.
    fileprivate var seen: Int? { if case .value(let value) = result { value } else { nil } }
}

/// Decides whether the calls of several callers on a key could have happened one after another, each at one moment
/// between its beginning and its end.
///
/// Calls take effect as late as possible: just before a call returns that needs them. A state is the value of the key,
/// and the calls that have taken effect but have not returned; all possible states are followed side by side (Lowe,
/// "Testing for linearizability", 2017).
package enum Linearizability {
    package struct Violation: CustomStringConvertible, Sendable {
        /// The first call that returned something impossible.
        package let call: ObservedCall
        /// The values that the key may have had when it returned.
        package let possible: [Int?]
        /// The calls on the key that returned shortly before, or had begun.
        package let others: [ObservedCall]

        package var description: String {
            let values = possible.map { $0.map(String.init) ?? "nothing" }.sorted().joined(separator: ", ")
            let before = others.map { "\n    \($0)" }.joined()
            return "impossible: \(call); possible values: \(values); before and beside it:\(before)"
        }
    }

    /// The number of calls that may be open at once; more than that many killed ones are forgotten.
    private static let slots = 24
    /// A killed call is taken to have had no effect if it has none within so many later calls, and its value is not
    /// seen later. Otherwise each would double the states forever.
    private static let patience = 40

    /// Returns the first violation of each key, given the calls of all keys in any order. `initial`: the values before.
    package static func violations(
        in calls: [ObservedCall], initial: [String: Int] = [:]
    ) -> [Violation] {
        Dictionary(grouping: calls, by: \.key).sorted { $0.key < $1.key }.compactMap { key, calls in
            violation(in: calls, initial: initial[key])
        }
    }

    private struct State: Hashable {
        var value: Int?
        /// A bit for the slot of each open call that has taken effect.
        var done: UInt32 = 0
    }

    private struct Open {
        let call: ObservedCall
        let since: Int
    }

    private static func violation(in calls: [ObservedCall], initial: Int?) -> Violation? {
        var events: [(time: UInt64, isEnd: Bool, call: Int)] = []
        var lastSeen: [Int: UInt64] = [:]
        for (number, call) in calls.enumerated() {
            events.append((call.begin, false, number))
            guard let end = call.end else { continue }
            events.append((end, true, number))
            if let seen = call.seen { lastSeen[seen] = max(lastSeen[seen] ?? 0, end) }
        }
        events.sort { ($0.time, $0.isEnd ? 1 : 0) < ($1.time, $1.isEnd ? 1 : 0) }
        var open = [Open?](repeating: nil, count: slots)
        var slot: [Int: Int] = [:]
        var states: Set<State> = [State(value: initial)]
        var recent: [ObservedCall] = []
        var returned = 0
        for event in events {
            let call = calls[event.call]
            if event.isEnd {
                guard let place = slot[event.call] else { continue }
                let possible = after(place, open, states)
                if possible.isEmpty {
                    let values = Set(states.map(\.value)).map { $0 }
                    return Violation(call: call, possible: values, others: recent + open.compactMap { $0?.call })
                }
                states = forget(place, possible)
                open[place] = nil
                returned += 1
                recent = recent.suffix(11) + [call]
            } else {
                for (place, waiting) in open.enumerated() {
                    guard let waiting, waiting.call.end == nil, returned - waiting.since > patience,
                        lastSeen[waiting.call.stored ?? 0] ?? 0 < event.time
                    else { continue }
                    states = forget(place, states)
                    open[place] = nil
                }
                guard
                    let place = open.firstIndex(where: { $0 == nil }) ?? open.firstIndex(where: { $0?.call.end == nil })
                else { preconditionFailure("more than \(slots) calls at once") }
                if open[place] != nil { states = forget(place, states) }
                open[place] = Open(call: call, since: returned)
                slot[event.call] = place
            }
        }
        return nil
    }

    /// The states in which the call of a slot has taken effect: at once, or after other open calls.
    private static func after(_ place: Int, _ open: [Open?], _ states: Set<State>) -> Set<State> {
        var found: Set<State> = []
        var seen = states
        var waiting = Array(states)
        while let state = waiting.popLast() {
            if state.done & 1 << UInt32(place) != 0 {
                found.insert(state)
                continue
            }
            for (other, candidate) in open.enumerated() {
                guard let candidate, state.done & 1 << UInt32(other) == 0,
                    let value = candidate.call.effect(on: state.value)
                else { continue }
                let next = State(value: value, done: state.done | 1 << UInt32(other))
                if seen.insert(next).inserted { waiting.append(next) }
            }
        }
        return found
    }

    private static func forget(_ place: Int, _ states: Set<State>) -> Set<State> {
        Set(states.map { State(value: $0.value, done: $0.done & ~(1 << UInt32(place))) })
    }
}
