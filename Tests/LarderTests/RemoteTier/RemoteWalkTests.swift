import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// Several machines do random things, one after the other, and lose the server at random.
@Suite("A random walk of machines on one server")
struct RemoteWalkTests {
    @Test(
        "no machine returns what it has heard to be outdated, nor anything expired",
        arguments: 0..<Sample.size(200, usually: 8))
    func walk(_ run: Int) async throws {
        // The same walks in every run, others when everything is tried: seed 661274 still fails in step 44.
        let seed = Sample.isComplete ? RunSeed.seed(run) : UInt64(run)
        var walk = try Walk(seed: seed)
        for step in 0..<300 {
            try await walk.step()
            if !walk.failures.isEmpty {
                let last = walk.trace.suffix(40).joined(separator: "\n")
                Issue.record("seed \(seed), step \(step): \(walk.failures), after\n\(last)")
                return
            }
        }
    }
}

private struct Walk {
    /// A value tells when it was stored and when it expires.
    private struct Change {
        let number: Int
        let machine: Int
        /// Nil: all keys of the tag or of the cache.
        let key: String?
        let isTagged: Bool
        /// Whether it stores a value, which survives the process that could not send it.
        var isSet = false
        /// Whether that is a fetched one: others that have fetched theirs keep it when the server does not take this.
        var isFetch = false
        /// When its value expires.
        var end = Int.max
    }

    private static let keys = ["a", "b", "c", "t1", "t2"]

    private let machines: Machines
    private var caches: [Cache<String>]
    private var generator: SeededGenerator
    private var number = 0
    private var elapsed = 0
    private var isConnected: [Bool]
    /// Whether new connections can be made.
    private var isReachable = true
    /// By machine, whether its process has ever reached the server.
    private var isTimed = [true, true, true]
    /// By machine, those that it has not been able to send.
    private var unsent: [[Change]]
    /// By machine and key: the last change that the machine has heard of, or made.
    private var floors: [[String: Int]]
    /// By machine and key: a value that an ended process could not send. Once it has expired, nobody knows of it any
    /// more: the next process does not send what an older value of the server would have to yield to.
    private var fading: [[String: Change]] = [[:], [:], [:]]
    /// By key: the last change that has arrived at the server.
    private var delivered: [String: Int] = [:]
    private(set) var failures: [String] = []
    /// What was done, to be printed after a failure.
    private(set) var trace: [String] = []

    init(seed: UInt64) throws {
        let machines = Machines(3)
        self.machines = machines
        generator = SeededGenerator(seed: seed)
        caches = try (0..<3).map { try Self.open($0, machines) }
        isConnected = [true, true, true]
        unsent = [[], [], []]
        floors = [[:], [:], [:]]
    }

    private static func open(_ machine: Int, _ machines: Machines) throws -> Cache<String> {
        try machines.cache(machine) { settings in
            if machine == 2 { settings.memory = nil }
            settings.fetchPolicy = machine == 1 ? .staleIfError(for: .days(1)) : .cacheFirst
        }
    }

    private mutating func random(_ count: Int) -> Int { Int.random(in: 0..<count, using: &generator) }

    mutating func step() async throws {
        machines.advance(by: .milliseconds(2))
        elapsed += 2
        let machine = random(3)
        let key = Self.keys[random(Self.keys.count)]
        let choice = random(40)
        trace.append("at \(elapsed): machine \(machine), key \(key), choice \(choice); connected: \(isConnected)")
        switch choice {
        case 0..<12: try await set(key, machine)
        case 12..<24: await read(key, machine)
        case 24..<27: try await change(Change(number: next(), machine: machine, key: key, isTagged: false))
        case 27: try await change(Change(number: next(), machine: machine, key: nil, isTagged: false))
        case 28..<30: try await change(Change(number: next(), machine: machine, key: nil, isTagged: true))
        case 30..<32: cut(machine)
        case 32..<36: await reconnect()
        case 36: machines.server.evict(key)
        case 37: machines.server.evictGenerations()
        case 38 where random(3) == 0: restart()
        case 38: try await endProcess(machine)
        default:
            machines.advance(by: .milliseconds(2500))
            elapsed += 2500
        }
        for machine in 0..<3 where isConnected[machine] { await caches[machine].sent() }
    }

    private mutating func next() -> Int {
        number += 1
        return number
    }

    private mutating func set(_ key: String, _ machine: Int) async throws {
        let number = next()
        let life = 1000 * (1 + random(20))
        let value = "\(number) \(elapsed + life)"
        let tags = key.hasPrefix("t") ? ["t"] : []
        let isFetch = random(3) == 0
        if isFetch {
            // A fetch; a value that is there, or comes from elsewhere, is left.
            _ = try await caches[machine].value(
                forKey: key, ttl: .seconds(life / 1000), tags: tags, policy: .reload
            ) { value }
            await caches[machine].waitForFetches()
        } else {
            try await caches[machine].setValue(value, forKey: key, ttl: .seconds(life / 1000), tags: tags)
        }
        note(
            Change(
                number: number, machine: machine, key: key, isTagged: false, isSet: true, isFetch: isFetch,
                end: elapsed + life))
        let found = await caches[machine].value(forKey: key)
        if found != value { failures.append("\(machine) has stored \(key) = \(value) and reads \(found ?? "nothing")") }
    }

    private mutating func change(_ change: Change) async throws {
        let cache = caches[change.machine]
        if let key = change.key {
            if random(2) == 0 {
                try await cache.removeValue(forKey: key)
            } else {
                try await cache.expireValue(forKey: key)
            }
        } else if change.isTagged {
            try await cache.removeAll(tagged: "t")
        } else {
            try await cache.removeAll()
        }
        note(change)
    }

    private func keys(_ change: Change) -> [String] {
        if let key = change.key { return [key] }
        return change.isTagged ? Self.keys.filter { $0.hasPrefix("t") } : Self.keys
    }

    private mutating func note(_ change: Change) {
        trace.append("  \(change)")
        for key in keys(change) { floors[change.machine][key] = change.number }
        if isConnected[change.machine] { deliver(change) } else { unsent[change.machine].append(change) }
    }

    private mutating func deliver(_ change: Change) {
        for key in keys(change) {
            delivered[key] = max(delivered[key] ?? 0, change.number)
            for machine in 0..<3 where isConnected[machine] { hear(key, machine) }
        }
    }

    /// A machine that is connected gets a notice, or asks at its next read.
    private mutating func hear(_ key: String, _ machine: Int) {
        floors[machine][key] = max(floors[machine][key] ?? 0, delivered[key] ?? 0)
    }

    private mutating func read(_ key: String, _ machine: Int) async {
        if isConnected[machine] { hear(key, machine) }
        let found = await caches[machine].lookup(forKey: key)
        trace.append("  read \(found.map { "\($0)" } ?? "nothing")")
        guard let found else { return }
        let parts = found.value.split(separator: " ").compactMap { Int($0) }
        let (number, end) = (parts[0], parts[1])
        if let change = fading[machine][key], change.number == floors[machine][key], elapsed >= change.end {
            floors[machine][key] = 0
        }
        if number < floors[machine][key] ?? 0 {
            failures.append("\(machine) reads \(key) = \(found), and knows of \(floors[machine][key] ?? 0)")
        }
        if elapsed >= end + 10 { failures.append("\(machine) reads \(key) = \(found) at \(elapsed)") }
    }

    private mutating func cut(_ machine: Int) {
        machines.cut(machine)
        isConnected[machine] = false
    }

    /// Another process takes the place of one. It has the disk, and not the changes that wait.
    private mutating func endProcess(_ machine: Int) async throws {
        // Whatever it has heard of goes from its disk in the background, and a close without time does not wait for that.
        let link = caches[machine].remoteLink
        await eventually { link?.state.withLock { $0.removing == nil } != false }
        try await caches[machine].close(waitingForFetches: .zero)
        machines.restart(machine)
        caches[machine] = try Self.open(machine, machines)
        isConnected[machine] = isReachable
        for change in unsent[machine] where !change.isSet || !isTimed[machine] {
            for key in keys(change) { floors[machine][key] = 0 }
        }
        for change in unsent[machine] where change.isSet { for key in keys(change) { fading[machine][key] = change } }
        unsent[machine] = []
        isTimed[machine] = isReachable
    }

    private mutating func restart() {
        machines.server.restartEmpty()
        isReachable = false
        isConnected = [false, false, false]
    }

    private mutating func reconnect() async {
        machines.server.reconnect()
        isReachable = true
        isTimed = [true, true, true]
        for machine in 0..<3 { await caches[machine].sent() }
        // Those that connect first may have sent before the others could hear of it.
        isConnected = [false, false, false]
        for changes in unsent { for change in changes where !change.isFetch { deliver(change) } }
        unsent = [[], [], []]
        isConnected = [true, true, true]
    }
}
