import Foundation
import Larder
import LarderFiles
import LarderTesting

/// Some machines, each with a disk and a clock of its own, that share one server.
final class Machines: Sendable {
    let time = TestWorld()
    let server: TestRemoteServer
    let worlds: [TestWorld]
    /// The last connection of each machine.
    private let connections = Lock<[Int: any RemoteTier]>([:])

    /// `ahead`: by how much the clock of each machine is ahead of the server's.
    init(_ count: Int = 2, ahead: [Duration] = []) {
        server = TestRemoteServer(world: time)
        worlds = (0..<count).map { index in
            let world = TestWorld()
            if index < ahead.count { world.setClock(to: world.now.addingTimeInterval(ahead[index] / .seconds(1))) }
            return world
        }
    }

    func cache(
        _ machine: Int, namespace: String = "", _ change: (inout Cache<String>.Configuration) -> Void = { _ in }
    ) throws -> Cache<String> {
        var configuration = Cache<String>.Configuration()
        let connection = server.connection()
        connections.withLock { $0[machine] = connection }
        configuration.remoteTier = connection
        change(&configuration)
        if namespace.isEmpty { return try worlds[machine].cache(configuration: configuration) }
        return Cache(disk: try worlds[machine].diskCache(), namespace: namespace, configuration: configuration)
    }

    /// A cache whose callers wait by this clock.
    func cache(_ machine: Int, _ clock: ImpatientClock, queueLimit: Int = 10_000) throws -> Cache<String> {
        var configuration = Cache<String>.Configuration(remoteTier: server.connection())
        configuration.remoteTierPolicy.queueLimit = queueLimit
        return try Cache(
            directory: URL(fileURLWithPath: "/cache", isDirectory: true), configuration: configuration,
            fileSystem: worlds[machine].files, clock: clock)
    }

    /// Opens the cache of a machine again, as after the end of its process.
    func restart(_ machine: Int) {
        worlds[machine].restart()
    }

    /// Cuts the connection of a machine, until the server's are made again.
    func cut(_ machine: Int) {
        if let connection = connections.withLock({ $0[machine] }) { server.disconnect(connection) }
    }

    /// Advances all clocks.
    func advance(by duration: Duration) {
        time.advance(by: duration)
        for world in worlds { world.advance(by: duration) }
    }
}

/// The events of a cache.
final class RemoteLog: Sendable {
    private let events = Lock<[CacheEvent]>([])

    func note(_ event: CacheEvent) {
        events.withLock { $0.append(event) }
    }

    func count(of kind: CacheEvent.Kind) -> Int {
        events.withLock { $0.count { $0.kind == kind } }
    }
}

/// A clock that moves on as soon as somebody waits by it for a short time: what a call has waited for is what it shows
/// afterwards.
final class ImpatientClock: LarderFiles.Clock {
    private struct Done: ScheduledWork {
        func cancel() {}
    }

    private let base: ManualClock
    private let isArmed = Flag()
    private let begun = Lock(0)

    init(_ world: TestWorld) {
        base = world.clock
    }

    var now: Timestamp { base.now }

    /// The number of waits for a short time that have begun while nobody measured.
    var waits: Int { begun.withLock { $0 } }

    /// Returns the time for which a call waits.
    func waiting(_ call: () async throws -> Void) async rethrows -> Duration {
        isArmed.set()
        defer { isArmed.set(false) }
        let begun = base.milliseconds
        try await call()
        return .milliseconds(base.milliseconds - begun)
    }

    func schedule(after delay: Duration, _ work: @escaping @Sendable () -> Void) -> any ScheduledWork {
        guard delay <= .milliseconds(100) else { return base.schedule(after: delay, work) }
        guard isArmed.isSet else {
            begun.withLock { $0 += 1 }
            return base.schedule(after: delay, work)
        }
        base.advance(by: delay)
        work()
        return Done()
    }
}
