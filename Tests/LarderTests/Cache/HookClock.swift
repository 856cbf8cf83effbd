import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

final class Probe: Sendable {
    private let atEnd: @Sendable () -> Void

    init(_ atEnd: @escaping @Sendable () -> Void) {
        self.atEnd = atEnd
    }

    deinit { atEnd() }
}

extension World {
    func open(_ clock: HookClock) throws -> DiskCache {
        try DiskCache(directory: Self.directory, configuration: configuration, fileSystem: files, clock: clock)
    }
}

/// Does something when it is read for the n-th time: what another thread might do at that moment.
final class HookClock: LarderFiles.Clock {
    let base = ManualClock()
    private let state = Lock<(rest: Int, hook: (@Sendable () -> Void)?)>((0, nil))
    private let running = DispatchGroup()

    func arm(_ number: Int, _ hook: @escaping @Sendable () -> Void) {
        state.withLock { $0 = (number, hook) }
    }

    /// Returns when a hook that has begun is done: it may run on a thread of the background.
    func disarm() {
        state.withLock { $0 = (0, nil) }
        running.wait()
    }

    var now: Timestamp {
        let hook = state.withLock { state -> (@Sendable () -> Void)? in
            state.rest -= 1
            guard state.rest == 0, let hook = state.hook else { return nil }
            state.hook = nil
            running.enter()
            return hook
        }
        if let hook {
            hook()
            running.leave()
        }
        return base.now
    }

    func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void) -> any ScheduledWork {
        base.schedule(after: delay, work)
    }
}

/// Blocks a thread of the cache's own until something async is done, or for a moment, if that waits for the thread.
/// Returns the task, which a test awaits at its end.
@discardableResult
func runAndWait(_ body: @escaping @Sendable () async -> Void) -> Task<Void, Never> {
    let done = DispatchSemaphore(value: 0)
    let task = Task {
        await body()
        done.signal()
    }
    _ = done.wait(timeout: .now() + 0.3)
    return task
}

/// Stops the main thread in the middle of a call; the tests run on others.
final class Stop: Sendable {
    private let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
    private let free = DispatchSemaphore(value: 0)
    private let hasStopped = Flag()

    /// The first time only.
    func stop() {
        if hasStopped.isSet { return }
        hasStopped.set()
        continuation.yield()
        free.wait()
    }

    func reached() async {
        for await _ in stream { return }
    }

    func open() {
        free.signal()
    }
}

/// Appends "+" to the value of "k", or to "none", and runs `body` in the middle of the first time. Returns the values
/// that were changed, one for each time.
func modify(_ cache: Cache<String>, meanwhile body: () async throws -> Void) async throws -> [String?] {
    let (gate, seen) = (Stop(), Lock<[String?]>([]))
    let call = Task { @MainActor in
        try await cache.modifyValue(forKey: "k") { value in
            seen.withLock { [value] in $0.append(value) }
            gate.stop()
            value = (value ?? "none") + "+"
        }
    }
    await gate.reached()
    do {
        defer { gate.open() }
        try await body()
    }
    try await call.value
    return seen.withLock { $0 }
}

/// Lets every write of a file fail.
func failWrites(_ world: World) {
    world.files.inject { _, operation in operation == .create || operation == .write ? .fail(.noSpace) : nil }
}

/// Runs `body` while the disk stores nothing: a value that it fetches is in memory alone.
func whileWritesFail(_ world: World, _ body: () async throws -> Void) async throws {
    failWrites(world)
    defer { world.files.inject(nil) }
    try await body()
}
