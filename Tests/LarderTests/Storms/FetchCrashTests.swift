import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// A process killed inside its n-th system call while it fetches through a cache, for every n.
@Suite("Every crash point of fetches, tags and negative entries", .storm)
struct FetchCrashTests {
    /// The known values by key.
    typealias Known = [String: String]

    /// A step, and the resulting values of the keys that it changes; nil: none.
    struct Step: Sendable {
        let name: String
        let after: [String: String?]
        let run: @Sendable (Cache<String>, World) async throws -> Void
    }

    static let policy = FetchPolicy.staleIfError(for: .days(30))

    static let steps: [Step] = [
        Step(name: "fetch", after: ["a": "a1"]) { cache, _ in
            _ = try await cache.value(forKey: "a", ttl: .hours(1), tags: ["t"], policy: policy) { "a1" }
        },
        Step(name: "absent", after: ["b": "absent"]) { cache, _ in
            _ = try await cache.optionalValue(forKey: "b", absentTTL: .days(9), tags: ["t"]) { nil }
        },
        Step(name: "set with tags", after: ["c": "c1"]) { cache, _ in
            try await cache.setValue("c1", forKey: "c", ttl: .days(9), tags: ["t", "u"])
        },
        Step(name: "set with another tag", after: ["d": "d1"]) { cache, _ in
            try await cache.setValue("d1", forKey: "d", ttl: .days(9), tags: ["u"])
        },
        Step(name: "set without", after: ["e": "e1"]) { cache, _ in
            try await cache.setValue("e1", forKey: "e", ttl: .days(9))
        },
        Step(name: "revalidate", after: ["a": "a1"]) { cache, world in
            world.clock.set(milliseconds: world.clock.milliseconds + 7_200_000)
            let answer = try await cache.value(forKey: "a", ttl: .days(9), tags: ["t"], policy: policy) { cached in
                cached == nil ? .value("lost") : .notModified(metadata: ["etag": "2"])
            }
            guard answer == "a1" else { throw SourceFailure() }
        },
        Step(name: "absent where a value was", after: ["e": "absent"]) { cache, _ in
            _ = try await cache.optionalValue(forKey: "e", absentTTL: .days(9), policy: .reload) { nil }
        },
        Step(name: "set without, then with a tag", after: ["b": "b2"]) { cache, _ in
            try await cache.setValue("b1", forKey: "b", ttl: .days(9))
            try await cache.setValue("b2", forKey: "b", ttl: .days(9), tags: ["t"])
        },
        Step(name: "remove a tag", after: ["a": nil, "b": nil, "c": nil]) { cache, _ in
            try await cache.removeAll(tagged: "t")
        },
        Step(name: "fetch again", after: ["a": "a2"]) { cache, _ in
            _ = try await cache.value(forKey: "a", ttl: .days(9), tags: ["t"], policy: policy) { "a2" }
        },
        Step(name: "absent again", after: ["c": "absent"]) { cache, _ in
            _ = try await cache.optionalValue(forKey: "c", absentTTL: .days(9), tags: ["u"]) { nil }
        },
        Step(name: "save", after: [:]) { cache, _ in try await cache.flush() },
        Step(name: "remove another tag", after: ["c": nil, "d": nil]) { cache, _ in
            try await cache.removeAll(tagged: "u")
        },
        Step(name: "a value where none was", after: ["e": "e2"]) { cache, _ in
            _ = try await cache.optionalValue(forKey: "e", ttl: .days(9), tags: ["t"], policy: .reload) { "e2" }
        },
        Step(name: "remove", after: ["a": nil]) { cache, _ in try await cache.removeValue(forKey: "a") },
        Step(name: "remove an absence", after: ["c": nil]) { cache, _ in
            _ = try await cache.optionalValue(forKey: "c", absentTTL: .days(9)) { nil }
            try await cache.removeValue(forKey: "c")
        },
        Step(name: "close", after: [:]) { cache, _ in try await cache.close() },
    ]

    static func known(_ cache: Cache<String>) async -> Known {
        var known: Known = [:]
        for text in ["a", "b", "c", "d", "e"] {
            let key = cache.backend.key(text)
            if cache.backend.isProvisional { await cache.backend.settle([key]) }
            switch cache.backend.freshness(of: key, at: cache.backend.clock.now) {
            case .absent: known[text] = "absent"
            case .fresh, .stale: known[text] = await cache.backend.storedValue(for: key)?.value
            case .missing: break
            }
        }
        return known
    }

    /// Stores an entry that proves that the directory is a cache, whatever is lost.
    private func prepare(_ world: inout World) throws {
        let disk = try world.open()
        try disk.setString("stays", forKey: "stays", ttl: .forever)
        try disk.close()
        world.restart()
    }

    /// Runs the steps until the process is killed. Returns the acknowledged values, and the step that had not returned.
    private func run(
        _ world: World, killedIn number: Int
    ) async -> (acknowledged: Known, pending: Step?, isKilled: Bool) {
        let isReached = world.killing(in: number)
        var acknowledged: Known = [:]
        guard let disk = try? world.open() else { return (acknowledged, nil, true) }
        let cache = Cache<String>(disk: disk, namespace: "n")
        for step in Self.steps {
            try? await step.run(cache, world)
            // A call that does not fail with its disk does not report the kill either: it counts as returned only if
            // the kill has not happened yet.
            if isReached.withLock({ $0 }) { return (acknowledged, step, true) }
            for (key, value) in step.after { acknowledged[key] = value }
            disk.settle()
            if isReached.withLock({ $0 }) { return (acknowledged, nil, true) }
        }
        return (acknowledged, nil, false)
    }

    private func check(
        _ cache: Cache<String>, _ before: Known, _ pending: Step?, isJournalLost: Bool = false, _ context: Comment
    ) async {
        var after = before
        for (key, value) in pending?.after ?? [:] { after[key] = value }
        // A step that removes an absence may be anywhere between its states.
        var between = before
        between["c"] = pending?.name == "remove an absence" ? "absent" : before["c"]
        if pending?.name == "set without, then with a tag" { between["b"] = "b1" }
        // A life torn by a kill counts as expired if its record is lost too.
        if pending?.name == "revalidate", isJournalLost { between["a"] = nil }
        let found = await Self.known(cache)
        let isAllowed = found == before || found == after || found == between
        #expect(isAllowed, "\(context): \(found), expected \(before)")
    }

    @Test("every promise holds, with the index lost or not", arguments: [Durability.killSafe, .powerSafe])
    func killed(durability: Durability) async throws {
        var points = 0
        for number in Sample.calls {
            var world = World.grouped { $0.durability = durability }
            try prepare(&world)
            let (acknowledged, pending, isKilled) = await run(world, killedIn: number)
            let image = world.files.image
            for lost in [[], ["manifest"], ["journal"], ["manifest", "journal"]] {
                var damaged = image
                for name in image.names(at: "/cache") where lost.contains(where: name.hasPrefix) {
                    damaged.remove(at: "/cache/" + name)
                }
                for second in [nil, number % 2 == 0 ? 5 : 23] {
                    world.restart(with: damaged)
                    if let second {
                        world.files.inject { call, _ in call == second ? .kill : nil }
                        if let disk = try? world.open() { disk.settle() }
                        world.restart()
                    }
                    let disk = try world.open()
                    let cache = Cache<String>(disk: disk, namespace: "n")
                    let context: Comment =
                        "killed in call \(number), \(pending?.name ?? "no step"), lost \(lost), then in \(second ?? 0)"
                    if lost.isEmpty { await check(cache, acknowledged, pending, context) }
                    try disk.flush()
                    await check(cache, acknowledged, pending, isJournalLost: lost.contains("journal"), context)
                    disk.checkInvariants(world, settled: true)
                }
            }
            if !isKilled { break }
            points += 1
        }
        print(
            "fetches, tags, absences, \(durability == .killSafe ? "kill-safe" : "power-safe"): \(points) points survived"
        )
        #expect(points > Sample.least(of: 60))
    }

    @Test("every promise holds for another process, which goes on")
    func killedBesideAnother() async throws {
        for number in Sample.calls {
            var world = World.grouped()
            try prepare(&world)
            let disk = try world.anotherProcess().open()
            let witness = Cache<String>(disk: disk, namespace: "n")
            // Both tiers have something to forget.
            try await witness.setValue("old", forKey: "a", ttl: .seconds(1))
            _ = await witness.value(forKey: "a")
            try await witness.removeValue(forKey: "a")
            let (acknowledged, pending, isKilled) = await run(world, killedIn: number)
            let context: Comment = "killed in call \(number), \(pending?.name ?? "no step")"
            await check(witness, acknowledged, pending, "beside it, \(context)")
            try disk.flush()
            await check(witness, acknowledged, pending, "beside it, saved, \(context)")
            try disk.close()
            let alone = world.with(world.files.another())
            let last = try alone.open()
            await check(Cache<String>(disk: last, namespace: "n"), acknowledged, pending, "afterwards, \(context)")
            try last.flush()
            last.checkInvariants(alone, settled: true)
            if !isKilled { break }
        }
    }

    @Test("a power cut loses no returned power-safe change", arguments: 1...3 as ClosedRange<UInt64>)
    func powerSafe(seed: UInt64) async throws {
        var generator = SeededGenerator(seed: seed)
        for number in Sample.calls {
            var world = World.grouped { $0.durability = .powerSafe }
            try prepare(&world)
            let (acknowledged, pending, isKilled) = await run(world, killedIn: number)
            world.restart(with: world.files.imageAfterPowerCut(using: &generator))
            let disk = try world.open()
            try disk.flush()
            let context: Comment = "power cut in call \(number), \(pending?.name ?? "no step"), seed \(seed)"
            await check(Cache<String>(disk: disk, namespace: "n"), acknowledged, pending, context)
            disk.checkInvariants(world, settled: true)
            if !isKilled { break }
        }
    }
}
