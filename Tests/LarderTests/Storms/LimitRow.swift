import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// No evicted entry comes back, and no value is incomplete.
struct LimitRow: KillRow {
    private var story = LimitStory()

    let name = "copies, imports, evictions and exports"
    let least = 90

    var modes: [KillMode] {
        let formats = [ManifestFormat.json, .propertyList].map { format in
            KillMode(name: "manifest: \(format)", configure: { $0.manifestFormat = format }) { _ in
                [Aftermath(again: [5, 14, 40])]
            }
        }
        return formats + [KillMode(name: "beside another process", hasWitness: true)]
    }

    func configure(_ configuration: inout DiskCache.Configuration) {
        configuration.entriesPerGroup = 3
        configuration.countLimit = 9
    }

    mutating func prepare(_ world: inout World) throws { try LimitStory.prepare(&world) }

    mutating func act(_ cache: DiskCache, in world: World) throws {
        try story.tell(cache) { world.files.isDead }
        cache.settle()
    }

    func check(_ cache: DiskCache, _ scene: KillScene) {
        let image = scene.world.files.image
        let target = image.content(at: "/out/target").map { String(decoding: $0, as: UTF8.self) }
        let isWhole = target == "before" || target == LimitStory.large
        #expect(isWhole, "the export, \(scene.context)")
        #expect(image.names(at: "/old") == ["EGOCache.plist", "a_b", "c"], scene.context)
        story.check(cache, scene.context)
        guard scene.isFlushed else { return }
        #expect(cache.count <= 9, scene.context)
        if scene.isWitness { #expect(cache.string(forKey: "w") == "witness", scene.context) }
    }

    mutating func use(_ cache: DiskCache, _ scene: KillScene) throws {
        if scene.isWitness { try cache.setString("witness", forKey: "w") }
    }

    func finish(_ cache: DiskCache, _ scene: inout KillScene) throws {
        #expect(try cache.verify().isClean, scene.context)
    }
}
