import LarderFiles

/// The faults that a test has arranged for the calls of one process.
final class FaultPlan: Sendable {
    /// A fault of certain calls: of the n-th since the fault was arranged, or of all.
    private struct Rule {
        let calls: FileCalls
        let number: Int?
        let fault: MemoryFileSystem.Fault
        var count = 0

        mutating func isMet(by operation: MemoryFileSystem.Operation) -> Bool {
            guard calls.operations.contains(operation) else { return false }
            count += 1
            return number == nil || count == number
        }
    }

    private struct State {
        var rules: [Rule] = []
        var failures = 0
    }

    private let state = Lock(State())

    /// Calls that have failed.
    var failures: Int { state.withLock { $0.failures } }

    func add(_ fault: MemoryFileSystem.Fault, in calls: FileCalls, number: Int? = nil) {
        state.withLock { $0.rules.append(Rule(calls: calls, number: number, fault: fault)) }
    }

    func removeAll() {
        state.withLock { $0.rules = [] }
    }

    /// Returns the fault of the next call. The first matching rule decides, but the others count the call too.
    @Sendable func fault(in operation: MemoryFileSystem.Operation) -> MemoryFileSystem.Fault? {
        state.withLock { state in
            var fault: MemoryFileSystem.Fault?
            for index in state.rules.indices where state.rules[index].isMet(by: operation) {
                fault = fault ?? state.rules[index].fault
            }
            if fault != nil { state.failures += 1 }
            return fault
        }
    }
}
