/// The part of a call that the search needs: the values it can meet, and the value it leaves.
struct LinearizationStep {
    /// A value of the key, numbered densely.
    typealias Value = Int

    enum Requirement {
        case anything
        case something
        case exactly(Value)
    }

    let requirement: Requirement
    /// Nil for an observation, which changes nothing.
    let stores: Value?
    let begin: UInt64
    let end: UInt64
    /// Whether it took effect for certain.
    let isRequired: Bool

    /// The value that it has seen, if it saw one.
    var seen: Value? {
        if case .exactly(let value) = requirement, value != LinearizationValues.absent { value } else { nil }
    }

    func isPossible(on value: Value) -> Bool {
        switch requirement {
        case .anything: true
        case .something: value != LinearizationValues.absent
        case .exactly(let required): value == required
        }
    }

    /// Nil when the call says nothing about the key: an unfinished read.
    init?(_ call: ObservedCall, _ values: LinearizationValues, slack: UInt64) {
        let isSeen = call.stored.map { values.firstSeen[$0] != nil } ?? false
        let isUnknown = call.end == nil || (call.result == .none && call.operation.dependsOnValue)
        guard let (requirement, stores) = Self.effect(of: call, values) else { return nil }
        self.requirement = requirement
        self.stores = stores
        begin = call.begin
        isRequired = !isUnknown || isSeen
        let limit = call.end ?? call.death.map { $0 &+ min(slack, .max - $0) } ?? .max
        // A value was there at the latest when the first call returned that saw it.
        let seen = isSeen && call.end == nil ? call.stored.flatMap { values.firstSeen[$0] } ?? .max : .max
        end = max(call.begin, min(limit, seen))
    }

    private static func effect(
        of call: ObservedCall, _ values: LinearizationValues
    ) -> (Requirement, stores: Value?)? {
        let absent = LinearizationValues.absent
        let new = call.stored.map { values.number(ofStored: $0) }
        switch (call.operation, call.result) {
        case (.get, .value(let value)): return (.exactly(values.number(of: value)), nil)
        case (.renew, .wasDone(let wasDone)): return (wasDone ? .something : .exactly(absent), nil)
        case (.get, _), (.renew, _): return nil
        case (.modify, .value(let value)): return (.exactly(values.number(of: value)), new)
        case (.set, _), (.modify, _): return (.anything, new)
        case (.setIfAbsent, .value(let value?)): return (.exactly(values.number(of: value)), nil)
        case (.setIfAbsent, .wasDone(false)): return (.something, nil)
        // Without a known result: where it stores nothing it need not have happened.
        case (.setIfAbsent, _): return (.exactly(absent), new)
        case (.remove, .wasDone(let wasDone)): return wasDone ? (.something, absent) : (.exactly(absent), nil)
        case (.remove, _), (.clear, _): return (.anything, absent)
        }
    }
}

extension ObservedCall.Operation {
    /// Whether a call without a known result may have changed nothing.
    fileprivate var dependsOnValue: Bool { if case .setIfAbsent = self { true } else { false } }
}
