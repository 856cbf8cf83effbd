import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

@Suite("An older Larder refuses a directory with segments")
struct SegmentVersionTests {
    /// The versions in the headers of the manifest and the journals.
    static func versions(_ world: World) -> Set<UInt64> {
        var versions: Set<UInt64> = []
        for name in world.names where name.hasPrefix("journal-") || name.hasPrefix("manifest") {
            let text = String(decoding: world.files.image.content(at: "/cache/" + name) ?? [], as: UTF8.self)
            if let match = text.firstMatch(of: /{"larder":(\d+)/) { versions.insert(UInt64(match.1)!) }
        }
        return versions
    }

    @Test("without a threshold, the format is that of 0.1.0", arguments: [ManifestFormat.json, .propertyList])
    func plain(format: ManifestFormat) throws {
        let world = World {
            $0.inlineThreshold = 0
            $0.manifestFormat = format
        }
        let cache = try world.open()
        try cache.setString("v", forKey: "k")
        try cache.flush()
        try cache.close()
        #expect(Self.versions(world) == [2])
    }

    @Test("a cache without a threshold keeps the version as long as there are segments")
    func thresholdTakenBack() throws {
        var world = World { $0.inlineThreshold = 100 }
        var cache = try world.open()
        try cache.setString("v", forKey: "k")
        try cache.close()
        world.restart()
        world.configuration.inlineThreshold = 0
        cache = try world.open()
        try cache.setString("own file", forKey: "other")
        try cache.flush()
        #expect(Self.versions(world).contains(3) && cache.string(forKey: "k") == "v")
        try cache.removeAll()
        cache.settle()
        try cache.setString("own file", forKey: "other")
        try cache.flush()
        try cache.close()
        #expect(world.segments == [] && Self.versions(world) == [2])
    }
}
