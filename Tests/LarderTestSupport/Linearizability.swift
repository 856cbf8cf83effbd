/// Decides whether the calls of several callers on a key could have happened one after another, each at one moment
/// between its beginning and its end.
///
/// A call without an end took effect once or never, between its beginning and its caller's death. The answer is exact:
/// see `LinearizationSearch`.
package enum Linearizability {
    package struct Violation: CustomStringConvertible, Sendable {
        /// The first call that returned something impossible.
        package let call: ObservedCall
        /// The number of calls on the key that returned before it. Together they are possible.
        package let possibleReturns: Int
        /// The values that the key may have had when it returned.
        package let possible: [Int?]
        /// The calls on the key that returned shortly before or were open, and the one that stored what it saw.
        package let others: [ObservedCall]

        package var description: String {
            let values = possible.map { $0.map(String.init) ?? "no value" }.joined(separator: ", ")
            let origin = ([call] + others).map(\.begin).min() ?? 0
            let around = others.map { "\n    \($0.describe(since: origin))" }.joined()
            return """
                impossible after \(possibleReturns) possible calls: \(call.describe(since: origin))
                  values that \(call.key) may have had: \(values.isEmpty ? "none" : values); calls before and \
                beside it, from \(origin) ns:\(around)
                """
        }
    }

    /// Returns the first violation of each key, given the calls of all keys in any order.
    ///
    /// - Parameters:
    ///   - calls: The calls.
    ///   - initial: The values before the first call.
    ///   - slack: How long after the death of its caller a call may still take effect, in nanoseconds.
    /// - Returns: The violations, at most one for each key.
    package static func violations(
        in calls: [ObservedCall], initial: [String: Int] = [:], slack: UInt64 = 0
    ) -> [Violation] {
        Dictionary(grouping: calls, by: \.key).sorted { $0.key < $1.key }.compactMap { key, calls in
            violation(in: calls, initial: initial[key], slack: slack)
        }
    }

    private static func violation(in calls: [ObservedCall], initial: Int?, slack: UInt64) -> Violation? {
        let history = History(calls)
        func contradiction(inFirst count: Int) -> UInt64? {
            var search = LinearizationSearch(history.prefix(count), initial: initial, slack: slack)
            return search.firstContradiction()
        }
        guard let moment = contradiction(inFirst: history.returned.count) else { return nil }
        // The search looks ahead, so it fails early. The call to blame is the one without which, and without all that
        // returned later, the calls are possible.
        var possible = history.returned.count { (calls[$0].end ?? 0) < moment }
        var (impossible, step) = (history.returned.count, 1)
        while possible + step < impossible {
            if contradiction(inFirst: possible + step) != nil {
                impossible = possible + step
                break
            }
            possible += step
            step *= 2
        }
        while impossible - possible > 1 {
            let middle = (possible + impossible) / 2
            if contradiction(inFirst: middle) == nil { possible = middle } else { impossible = middle }
        }
        return explain(history, possible, initial, slack)
    }

    /// Explains why the first `count` calls that returned are possible, and the next one is not.
    private static func explain(_ history: History, _ count: Int, _ initial: Int?, _ slack: UInt64) -> Violation {
        let call = history.calls[history.returned[count]]
        let recent = history.returned[..<count].suffix(12).map { history.calls[$0] }
        let start = recent.map(\.begin).min() ?? 0
        let before = history.prefix(count, without: history.returned[count])
        var others = recent + before.filter { $0.end == nil && ($0.death ?? .max) >= start }
        if let seen = call.seen, !others.contains(where: { $0.stored == seen }) {
            others += before.filter { $0.stored == seen }
        }
        var search = LinearizationSearch(
            before, initial: initial, slack: slack, naming: Set(others.compactMap(\.stored)))
        return Violation(
            call: call, possibleReturns: count, possible: search.possibleValues(from: call.begin, to: call.end ?? .max),
            others: others.sorted { $0.begin < $1.begin })
    }
}

/// The calls of one key, with the order in which they returned.
private struct History {
    let calls: [ObservedCall]
    /// The numbers of the calls that returned.
    let returned: [Int]
    /// The place of each call in `returned`; the largest number for one that did not return.
    private let places: [Int]

    init(_ calls: [ObservedCall]) {
        let returned = calls.indices.filter { calls[$0].end != nil }
            .sorted { (calls[$0].end ?? 0, $0) < (calls[$1].end ?? 0, $1) }
        var places = [Int](repeating: .max, count: calls.count)
        for (place, number) in returned.enumerated() { places[number] = place }
        (self.calls, self.returned, self.places) = (calls, returned, places)
    }

    /// Returns the calls as they had been observed when `count` of them had returned.
    func prefix(_ count: Int, without missing: Int? = nil) -> [ObservedCall] {
        if count == returned.count { return calls }
        // The next one that returns had begun by then, or begins now.
        let now = calls[returned[count]].end ?? .max
        return calls.indices.compactMap { number in
            let call = calls[number]
            if number == missing || call.begin > now { return nil }
            return places[number] < count ? call : call.unfinished
        }
    }
}

extension ObservedCall {
    /// The call as it was known before it returned.
    fileprivate var unfinished: ObservedCall {
        ObservedCall(caller: caller, key: key, operation, begin: begin, end: nil, death: end ?? death)
    }
}
