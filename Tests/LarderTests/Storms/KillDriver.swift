import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

/// Kills the process of one row of the table, in one mode, in its n-th call.
struct KillDriver<Row: KillRow> {
    private let mode: KillMode
    /// What each kill starts from.
    private let row: Row
    private let image: MemoryImage
    private let configuration: DiskCache.Configuration
    private let time: Int64

    /// What a process leaves.
    private struct Remains {
        var row: Row
        let world: World
        let witness: DiskCache?
        /// The call in which it was killed.
        let number: Int?
        let calls: Int
    }

    init(_ row: Row, _ mode: KillMode) async throws {
        var row = row
        var world = World {
            row.configure(&$0)
            mode.configure(&$0)
        }
        try await row.prepare(&world)
        world.files.kill()
        (self.row, self.mode, image) = (row, mode, world.files.image)
        (configuration, time) = (world.configuration, world.clock.milliseconds)
    }

    /// A run that nobody kills is the first: it says how many calls there are, and its promises hold, too.
    func killEverywhere() async throws {
        let whole = try await run(killedIn: nil)
        await survive(whole)
        let candidates = whole.row.candidates(whole.calls)
        #expect(candidates.count > row.least, "possible kills")
        let planned = row.tried.map { Sample.spread($0, over: candidates) } ?? Sample.points(candidates)
        var (points, kills, telling) = (planned, 0, 0)
        while !points.isEmpty {
            let point = points.removeFirst()
            let remains = try await run(killedIn: point)
            // The background does not make the same calls each time. When it made none of the planned ones, an earlier
            // one is tried.
            guard remains.number != nil else {
                if kills == 0, points.isEmpty, point > 1 { points = [point / 2] }
                continue
            }
            kills += 1
            if remains.row.inspect(remains.world, "\(row.name), killed in call \(point)") { telling += 1 }
            await survive(remains)
        }
        #expect(kills >= max(1, planned.count / 4), "the whole operation made more calls")
        if let least = row.leastTelling { #expect(telling > least, "kills that leave what this is about") }
        print("killed: \(row.name), \(mode.name): survived \(kills) of \(candidates.count) points")
    }

    private func run(killedIn number: Int?) async throws -> Remains {
        var row = row
        let world = world(with: image, at: time)
        let witness = mode.hasWitness ? try world.anotherProcess().open() : nil
        if let witness { try await row.welcome(witness) }
        let begun = try row.begin(world)
        let calls = Lock(0)
        world.files.inject { [prepared = self.row] _, operation in
            guard prepared.kills(in: operation) else { return prepared.fault(in: operation) }
            let isReached = calls.withLock { calls in
                calls += 1
                return calls == number
            }
            return isReached ? .kill : prepared.fault(in: operation)
        }
        do {
            try await row.act(begun ?? world.open(), in: world)
        } catch {
            #expect(world.files.isDead, "\(error)")
        }
        let isKilled = number != nil && world.files.isDead
        world.files.kill()
        return Remains(
            row: row, world: world, witness: witness, number: isKilled ? number : nil, calls: calls.withLock { $0 })
    }

    /// Returns a world with a clock of its own.
    private func world(with image: MemoryImage, at time: Int64) -> World {
        var world = World { $0 = configuration }
        world.clock.set(milliseconds: time)
        world.restart(with: image)
        return world
    }

    private func survive(_ remains: Remains) async {
        for (index, aftermath) in mode.aftermaths(remains.number ?? 0).enumerated() {
            let seed = RunSeed.seed("\(row.name) \(mode.name) \(remains.number ?? 0) \(index)")
            var scene = KillScene(
                number: remains.number, mode: mode, aftermath: aftermath, seed: seed, world: remains.world,
                generator: SeededGenerator(seed: seed))
            do {
                if let witness = remains.witness {
                    try await live(on: witness, remains.row, scene)
                    scene.world = remains.world.with(remains.world.files.another())
                } else {
                    try damage(&scene)
                }
                try await recover(remains.row, &scene)
            } catch {
                Issue.record(error, scene.context)
            }
        }
    }

    /// Leaves the disk of the scene as the aftermath says.
    private func damage(_ scene: inout KillScene) throws {
        let (files, aftermath) = (scene.world.files, scene.aftermath)
        let image = aftermath.cut == nil ? files.image : files.imageAfterPowerCut(using: &scene.generator)
        scene.world = world(with: image, at: scene.world.clock.milliseconds)
        if aftermath.keepsUnsynced { scene.world.files = files.restarted() }
        for name in scene.world.names where name != "entries" && aftermath.lost.contains(where: name.hasPrefix) {
            scene.world.remove(name)
        }
        for second in aftermath.again {
            _ = scene.world.killing(in: second)
            if let cache = try? scene.world.open() { cache.settle() }
            scene.world.restart()
        }
    }

    /// The other process acts first and flushes afterwards.
    private func live(on witness: DiskCache, _ row: Row, _ scene: KillScene) async throws {
        var (row, scene) = (row, scene)
        scene.isWitness = true
        try await row.check(witness, scene)
        try row.use(witness, scene)
        try witness.flush()
        scene.isFlushed = true
        try await row.check(witness, scene)
        try witness.close()
    }

    private func recover(_ row: Row, _ scene: inout KillScene) async throws {
        var row = row
        try row.react(&scene)
        let cache = try scene.world.open()
        try await row.check(cache, scene)
        try row.use(cache, scene)
        try cache.flush()
        scene.isFlushed = true
        try await row.check(cache, scene)
        cache.checkInvariants(scene.world, settled: true)
        try row.finish(cache, &scene)
    }
}
