import LarderFiles

/// Those who wait for changes of keys, through one cache.
///
/// To the index it is a memory tier that holds nothing: it hears of every change that memory must not outlive, whoever
/// makes it, with the shard locked. So whoever reads the disk afterwards sees the change. The backend tells it of
/// changes of its own memory: of a value that a caller has stored, once it is there, and of those that are in memory
/// alone.
final class KeyWatchers: MemoryTier {
    let namespace: Namespace
    private let clock: any Clock
    /// Set once anybody has watched a key.
    private let isUsed = Flag()
    private let state = Lock(State())

    private struct State {
        var signals: [Key: [ChangeSignal]] = [:]
        /// Ends the notices of the index, once they have begun.
        var detach: (@Sendable () -> Void)?
        var isOver = false
    }

    init(of namespace: Namespace = .none, _ clock: any Clock) {
        self.namespace = namespace
        self.clock = clock
    }

    /// Tells a signal of each change of a key, until `remove`. `disk` has the index; nil without one.
    func add(_ signal: ChangeSignal, for key: Key, _ disk: DiskCache?) {
        let (isOver, isFirst) = state.withLock { state in
            if !state.isOver { state.signals[key, default: []].append(signal) }
            defer { isUsed.set() }
            return (state.isOver, !isUsed.isSet)
        }
        if isOver { return signal.end(clock) }
        guard isFirst, let disk else { return }
        let detach = disk.attach(self)
        let isTooLate = state.withLock { state in
            state.detach = detach
            return state.isOver
        }
        if isTooLate { detach() }
        // Others have read without waiting for this.
        invalidateAll()
    }

    func remove(_ signal: ChangeSignal, for key: Key) {
        let gone = state.withLock { state in
            let gone = state.signals[key]
            state.signals[key]?.removeAll { $0 === signal }
            if state.signals[key]?.isEmpty == true { state.signals[key] = nil }
            return gone
        }
        _ = consume gone
    }

    /// Ends all signals, those to come as well.
    func end() {
        let (signals, detach) = state.withLock { state in
            state.isOver = true
            defer { (state.signals, state.detach) = ([:], nil) }
            return (state.signals.values.flatMap(\.self), state.detach)
        }
        for signal in signals { signal.end(clock) }
        detach?()
    }

    func note(_ text: String) {
        guard isUsed.isSet else { return }
        let signals = state.withLock { $0.signals.isEmpty ? nil : $0.signals[Key(text, in: namespace)] }
        for signal in signals ?? [] { signal.note(clock) }
    }

    func invalidate(_ key: String, _ cause: RemovalCause) { note(key) }

    func invalidateAll() {
        guard isUsed.isSet else { return }
        for signal in state.withLock({ $0.signals.values.flatMap(\.self) }) { signal.note(clock) }
    }

    func invalidateAll(tagged tag: Key) { invalidateAll() }

    func expireAll(tagged tag: Key?) { invalidateAll() }

    /// The keys that are watched. For tests.
    var count: Int { state.withLock { $0.signals.count } }

    /// The readers of a key that wait. For tests.
    func waiting(forKey text: String) -> Int {
        let signals = state.withLock { $0.signals[Key(text, in: namespace)] ?? [] }
        return signals.reduce(0) { $0 + $1.waiting }
    }
}

/// Whether a value may have changed since its reader has looked, at first that it has. Copies of an iterator share one,
/// and the changes.
final class ChangeSignal: Sendable {
    private struct State {
        var hasChanged = true
        var isOver = false
        var isWaking = false
        var readers: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Lock(State())

    func note(_ clock: any Clock) { update(clock) { $0.hasChanged = true } }

    func end(_ clock: any Clock) { update(clock) { $0.isOver = true } }

    /// Whoever calls may hold locks, and a reader may run where it is resumed: so a task resumes it.
    private func update(_ clock: any Clock, _ change: (inout State) -> Void) {
        let mustWake = state.withLock { state in
            change(&state)
            defer { if !state.readers.isEmpty { state.isWaking = true } }
            return !state.readers.isEmpty && !state.isWaking
        }
        if mustWake { clock.begin(nil) { self.wake() } }
    }

    private func wake() {
        let readers = state.withLock { state in
            defer { (state.readers, state.isWaking) = ([], false) }
            return state.readers
        }
        for reader in readers { reader.resume() }
    }

    var isOver: Bool { state.withLock { $0.isOver } }

    var waiting: Int { state.withLock { $0.readers.count } }

    /// Waits for a change; false when none will come, or the task is cancelled.
    func wait(_ clock: any Clock) async -> Bool {
        await withTaskCancellationHandler {
            await withCheckedContinuation { reader in
                let isDue = state.withLock { state in
                    if state.hasChanged || state.isOver { return true }
                    state.readers.append(reader)
                    return false
                }
                if isDue { reader.resume() }
            }
        } onCancel: {
            end(clock)
        }
        return state.withLock { state in
            state.hasChanged = false
            return !state.isOver
        }
    }
}
