/// A call on one key, as it was observed. Each value is a number that no other call stores, and never 0.
package struct ObservedCall: Sendable, CustomStringConvertible {
    package enum Operation: Sendable, Hashable {
        case get
        case set(Int)
        /// Stores a value unless there is one. The result is the value that was there, or whether the new one was
        /// stored.
        case setIfAbsent(Int)
        /// The result tells whether there was a value.
        case remove
        /// Replaces any value, or none. The result is the value that it replaced.
        case modify(Int)
        /// Changes the life of a value. The result tells whether there was one.
        case renew
        /// Removes this and other keys; tells nothing about this one.
        case clear
    }

    package enum Result: Sendable, Equatable {
        /// The call returned nothing, or its result is not known.
        case none
        case value(Int?)
        case wasDone(Bool)
    }

    /// The process or task that made the call.
    package let caller: Int
    package let key: String
    package let operation: Operation
    /// Nanoseconds of a monotonic clock.
    package let begin: UInt64
    /// Nil when the caller was killed during the call, or the call threw: it took effect once or never.
    package let end: UInt64?
    /// The moment after which a call without an end can no longer take effect: the proof of its caller's death. Nil:
    /// it may take effect at any time.
    package let death: UInt64?
    package let result: Result

    package init(
        caller: Int, key: String, _ operation: Operation, begin: UInt64, end: UInt64?, death: UInt64? = nil,
        _ result: Result = .none
    ) {
        self.caller = caller
        self.key = key
        self.operation = operation
        self.begin = begin
        self.end = end
        self.death = death
        self.result = end == nil ? .none : result
    }

    package var description: String { describe(since: 0) }

    /// Returns one line about the call, with times in microseconds after `origin`.
    package func describe(since origin: UInt64) -> String {
        func time(_ moment: UInt64) -> String {
            let tenths = (Int64(moment) - Int64(origin)) / 100
            return "\(tenths < 0 ? "-" : "")\(abs(tenths) / 10).\(abs(tenths) % 10)"
        }
        let outcome =
            if let end { "\(time(end)) us: \(operationText) -> \(resultText)" } else {
                "unfinished, dead at \(death.map(time) ?? "an unknown time") us: \(operationText)"
            }
        return "process \(caller), \(time(begin)) - \(outcome)"
    }

    private var operationText: String {
        switch operation {
        case .get, .remove, .renew, .clear: "\(operation) \(key)"
        case .set(let value): "set \(key) to \(value)"
        case .setIfAbsent(let value): "set \(key) to \(value) if absent"
        case .modify(let value): "modify \(key) to \(value)"
        }
    }

    private var resultText: String {
        switch result {
        case .none: "returned"
        case .value(let value): value.map(String.init) ?? "no value"
        case .wasDone(let wasDone): "\(wasDone)"
        }
    }
}

extension ObservedCall {
    /// The value that the call may have stored.
    package var stored: Int? {
        switch operation {
        case .set(let value), .setIfAbsent(let value), .modify(let value): value
        case .get, .remove, .renew, .clear: nil
        }
    }

    /// The value that the call has seen.
    package var seen: Int? { if case .value(let value) = result { value } else { nil } }
}
