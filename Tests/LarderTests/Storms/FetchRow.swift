import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// Fetches, tags and negative entries.
struct FetchRow: KillRow {
    private var acknowledged: FetchSteps.Known = [:]
    /// The step that has not returned.
    private var pending: FetchSteps.Step?
    private var witness: Cache<String>?

    let name = "fetches, tags and absences"
    let least = 60

    var modes: [KillMode] {
        let kills = [Durability.killSafe, .powerSafe].map { durability in
            KillMode(name: "\(durability)", configure: { $0.durability = durability }) { number in
                Aftermath.each(Aftermath.losses, again: [[], [number % 2 == 0 ? 5 : 23]])
            }
        }
        return kills + [KillMode(name: "beside another process", hasWitness: true), .powerCuts(3)]
    }

    func configure(_ configuration: inout DiskCache.Configuration) { configuration.entriesPerGroup = 3 }

    /// Stores an entry that proves that the directory is a cache, whatever is lost.
    mutating func prepare(_ world: inout World) throws {
        let disk = try world.open()
        try disk.setString("stays", forKey: "stays", ttl: .forever)
        try disk.close()
    }

    /// Both tiers have something to forget.
    mutating func welcome(_ witness: DiskCache) async throws {
        let cache = Cache<String>(disk: witness, namespace: "n")
        try await cache.setValue("old", forKey: "a", ttl: .seconds(1))
        _ = await cache.value(forKey: "a")
        try await cache.removeValue(forKey: "a")
        self.witness = cache
    }

    mutating func act(_ disk: DiskCache, in world: World) async throws {
        let cache = Cache<String>(disk: disk, namespace: "n")
        for step in FetchSteps.all {
            pending = step
            try? await step.run(cache, world)
            // A call that does not fail with its disk does not report the kill either: it counts as returned only if
            // the kill has not happened yet.
            if world.files.isDead { return }
            for (key, value) in step.after { acknowledged[key] = value }
            pending = nil
            disk.settle()
            if world.files.isDead { return }
        }
    }

    func check(_ disk: DiskCache, _ scene: KillScene) async {
        guard scene.isFlushed || scene.aftermath.lost.isEmpty && scene.aftermath.cut == nil else { return }
        let before = acknowledged
        var after = before
        for (key, value) in pending?.after ?? [:] { after[key] = value }
        // A step that removes an absence may be anywhere between its states.
        var between = before
        between["c"] = pending?.name == "remove an absence" ? "absent" : before["c"]
        if pending?.name == "set without, then with a tag" { between["b"] = "b1" }
        // A life torn by a kill counts as expired if its record is lost too.
        if pending?.name == "revalidate", scene.aftermath.lost.contains("journal") { between["a"] = nil }
        let cache = Cache<String>(disk: disk, namespace: "n")
        let found = await FetchSteps.known(scene.isWitness ? witness ?? cache : cache)
        let isAllowed = found == before || found == after || found == between
        #expect(isAllowed, "\(scene.context), \(pending?.name ?? "no step"): \(found), expected \(before)")
    }
}
