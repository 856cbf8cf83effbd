import LarderFiles

extension Cache {
    /// The value of a key now, and the new one after each change; nil while there is none.
    ///
    ///     for await user in users.updates(forKey: id) { show(user) }
    ///
    /// Changes of this process arrive at once, those of other processes of the directory within a tenth of a second,
    /// and those of other machines when the remote tier tells of them. A reader that is slower than the changes gets
    /// the newest value only, and now and then one that it has seen. An expired or evicted value is a change once a
    /// call or a sweep has removed it; one that is in memory alone, beside a disk tier, leaves without notice.
    ///
    /// Each value is read from the cache, as by ``value(forKey:)``, and counts as a use. The sequence ends when the
    /// cache is closed or released, which it does not prevent, or its task is cancelled.
    ///
    /// - Returns: A sequence that can be iterated any number of times, each time from the current value on.
    public func updates(forKey key: String) -> CacheUpdates<Value> {
        CacheUpdates(
            begin: { [weak self] signal in self.map { $0.begin(signal, $0.backend.key(key)) } },
            read: { [weak self] in
                guard let self, disk?.isClosed != true else { return nil }
                let value = await value(forKey: key)
                return disk?.isClosed == true ? nil : .some(value)
            }, clock: backend.clock)
    }

    /// Tells a signal of the changes of a key until the returned function is called.
    private func begin(_ signal: ChangeSignal, _ key: Key) -> @Sendable () -> Void {
        watchers.add(signal, for: key, disk)
        poll?.begin()
        return { [weak watchers, poll] in
            poll?.end()
            watchers?.remove(signal, for: key)
        }
    }
}

/// The values of a key, from ``Cache/updates(forKey:)``.
public struct CacheUpdates<Value: Sendable>: AsyncSequence, Sendable {
    /// The value; nil while there is none.
    public typealias Element = Value?

    /// Both return nil when the cache is gone.
    fileprivate let begin: @Sendable (ChangeSignal) -> (@Sendable () -> Void)?
    fileprivate let read: @Sendable () async -> Value??
    fileprivate let clock: any Clock

    /// Begins to listen. Each iterator gets all changes.
    public func makeAsyncIterator() -> Iterator {
        Iterator(Listening(clock, begin), read)
    }

    /// Waits for the changes of a key.
    public struct Iterator: AsyncIteratorProtocol {
        private let listening: Listening
        private let read: @Sendable () async -> Value??
        /// Whether the last element was that there is no value.
        private var isAbsent = false

        fileprivate init(_ listening: Listening, _ read: @escaping @Sendable () async -> Value??) {
            (self.listening, self.read) = (listening, read)
        }

        /// Returns the newest value once it may have changed; nil when the cache was closed or released, or the task is
        /// cancelled.
        public mutating func next() async -> Value?? {
            while await listening.wait() {
                // A read after the end, or by a cancelled task, misses a value that may be there.
                guard let value = await read(), !listening.isOver, !Task.isCancelled else { return nil }
                if value == nil, isAbsent { continue }
                isAbsent = value == nil
                return .some(value)
            }
            return nil
        }
    }
}

/// The part of an iterator that ends with it.
private final class Listening: Sendable {
    private let signal = ChangeSignal()
    private let clock: any Clock
    private let stop: @Sendable () -> Void

    init(_ clock: any Clock, _ begin: (ChangeSignal) -> (@Sendable () -> Void)?) {
        self.clock = clock
        if let stop = begin(signal) {
            self.stop = stop
        } else {
            stop = {}
            signal.end(clock)
        }
    }

    deinit {
        stop()
    }

    func wait() async -> Bool { await signal.wait(clock) }

    var isOver: Bool { signal.isOver }
}
