import LarderFiles

/// The reads of files that are under way, at most one for each key: callers that come meanwhile share its result.
final class JoinedReads<Value: Sendable>: Sendable {
    /// A value that was read.
    struct Found: Sendable {
        let value: Value
        let life: MemoryLife
        let metadata: [String: String]
        /// The time of the read.
        let time: Timestamp
        /// The entry on disk; nil when the value was in memory by then.
        let entry: IndexEntry?
    }

    /// The result of a read.
    enum Outcome: Sendable {
        case found(Found)
        /// There is no entry; or this one, which cannot be read.
        case missed(IndexEntry?)

        var value: Found? {
            if case .found(let found) = self { return found }
            return nil
        }
    }

    struct Name: Hashable {
        let key: Key
        /// Whether an expired value is wanted too.
        let orStale: Bool
    }

    /// The part of a caller in a read.
    private enum Role {
        case reads(number: Int)
        case waits
        /// Also queues the read again, as it waits for its turn with a lower priority.
        case hurries(number: Int)
    }

    private struct Read {
        let number: Int
        var priority: TaskPriority
        var hasBegun = false
        /// Whether it is part of a job for many keys, which waits for it without being a caller.
        var isOfMany = false
        var callers: [(number: Int, caller: CheckedContinuation<Outcome, Never>)] = []

        mutating func takeCaller(_ number: Int) -> CheckedContinuation<Outcome, Never>? {
            callers.firstIndex { $0.number == number }.map { callers.remove(at: $0).caller }
        }

        var isWanted: Bool { isOfMany || !callers.isEmpty }
    }

    private struct State {
        var reads: [Name: Read] = [:]
        var last = 0

        mutating func takeNumber() -> Int {
            last += 1
            return last
        }

        mutating func add(_ name: Name, _ priority: TaskPriority, isOfMany: Bool = false) -> Int {
            let number = takeNumber()
            reads[name] = Read(number: number, priority: priority, isOfMany: isOfMany)
            return number
        }

        mutating func join(
            _ name: Name, _ priority: TaskPriority, _ number: Int, _ caller: CheckedContinuation<Outcome, Never>
        ) -> Role {
            let isNew = reads[name] == nil
            if isNew { _ = add(name, priority) }
            let read = reads[name]!
            reads[name]!.callers.append((number, caller))
            if isNew { return .reads(number: read.number) }
            guard !read.hasBegun, priority > read.priority else { return .waits }
            reads[name]!.priority = priority
            return .hurries(number: read.number)
        }

        mutating func begin(_ name: Name, _ number: Int) -> Bool {
            guard let read = reads[name], read.number == number, !read.hasBegun else { return false }
            if !read.isWanted {
                reads[name] = nil
                return false
            }
            reads[name]!.hasBegun = true
            return true
        }
    }

    private let io: IOLimiter
    private let state = Lock(State())

    init(_ io: IOLimiter) {
        self.io = io
    }

    /// Returns what `read` returns, or another caller's. `isShared`: the read may have begun before this
    /// call: the entry may have changed in between.
    ///
    /// A cancelled caller leaves with a miss. When the last one does before the read has begun, nothing is read.
    func value(
        _ name: Name, _ read: @escaping @Sendable () -> Outcome
    ) async -> (outcome: Outcome, isShared: Bool) {
        let priority = Task.currentPriority
        var isShared = false
        if Task.isCancelled { return (.missed(nil), false) }
        let number = state.withLock { $0.takeNumber() }
        let outcome = await withTaskCancellationHandler {
            await withCheckedContinuation { caller in
                switch state.withLock({ $0.join(name, priority, number, caller) }) {
                case .waits:
                    isShared = true
                case .hurries(let number):
                    isShared = true
                    io.enqueue(priority) { self.run(name, number, read) }
                case .reads(let number):
                    io.enqueue(priority) { self.run(name, number, read) }
                }
                if Task.isCancelled { leave(name, number) }
            }
        } onCancel: {
            leave(name, number)
        }
        return (outcome, isShared)
    }

    private func leave(_ name: Name, _ number: Int) {
        state.withLock { $0.reads[name]?.takeCaller(number) }?.resume(returning: .missed(nil))
    }

    /// Reads several in one job, but for those that others read by now: they are left out.
    func values(
        _ names: [Name], _ read: @escaping @Sendable (Name) -> Outcome
    ) async -> [Name: Outcome] {
        let priority = Task.currentPriority
        let own = state.withLock { state in
            names.compactMap { name in
                state.reads[name] == nil ? (name, state.add(name, priority, isOfMany: true)) : nil
            }
        }
        if own.isEmpty { return [:] }
        return await io.run {
            var outcomes: [Name: Outcome] = [:]
            for (name, number) in own { outcomes[name] = self.run(name, number) { read(name) } }
            return outcomes
        }
    }

    /// The callers that wait for a read. For tests.
    func callers(_ name: Name) -> Int { state.withLock { $0.reads[name]?.callers.count ?? 0 } }

    /// Reads for all waiting callers. Nil when another job did it.
    @discardableResult
    private func run(_ name: Name, _ number: Int, _ read: () -> Outcome) -> Outcome? {
        guard state.withLock({ $0.begin(name, number) }) else { return nil }
        let outcome = read()
        let callers = state.withLock { $0.reads.removeValue(forKey: name)?.callers } ?? []
        for (_, caller) in callers { caller.resume(returning: outcome) }
        return outcome
    }
}
