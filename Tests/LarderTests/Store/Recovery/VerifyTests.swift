import Foundation
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("verify() reads every entry and reports its findings")
struct VerifyTests {
    private func filled() throws -> (World, DiskCache) {
        let world = World()
        let cache = try world.open()
        for number in 0..<200 { try cache.setData(Data(count: number), forKey: "\(number)") }
        try cache.removeValue(forKey: "199")
        try cache.flush()
        return (world, cache)
    }

    @Test("an intact cache is clean, and progress is reported to the end")
    func clean() throws {
        let (_, cache) = try filled()
        let told = Lock<[[Int]]>([])
        let before = cache.statistics
        let report = try cache.verify { checked, total in told.withLock { $0.append([checked, total]) } }
        #expect(report.isClean && report.checked == 199 && report.bytes == (0..<199).reduce(0, +))
        #expect(told.withLock { $0 } == [[64, 199], [128, 199], [192, 199], [199, 199]])
        #expect(cache.statistics == before, "no hits, no uses")
        #expect(
            report.description == "checked 199 entries, 19701 bytes; damaged 0, missing 0, unreadable 0, orphans 0")
    }

    @Test("damaged and missing entries are removed and named, and orphans are counted")
    func faults() throws {
        var (world, cache) = try filled()
        try cache.close()
        try world.damage("entries/000000000000000b") { $0[3] ^= 1 }
        try world.damage("entries/000000000000000c") { $0 = Array($0.prefix(5)) }
        world.remove("entries/000000000000000d")
        var image = world.files.image
        image.copy("/cache/entries/000000000000000e", to: "/cache/entries/0000000000000002f")
        image.copy("/cache/entries/000000000000000e", to: "/cache/entries/00000000000000c8")
        world.restart(with: image)
        cache = try world.open()
        let report = try cache.verify()
        #expect(!report.isClean && report.checked == 196)
        #expect(report.damaged.sorted() == ["10", "11"] && report.missing == ["12"] && report.unreadable == [])
        #expect(report.orphans == 1, "a name of another length is foreign")
        #expect(cache.statistics.corruptions == 2 && cache.statistics.losses == 1 && cache.count == 196)
        #expect(report.description.contains("\n  \"12\": its file was gone, removed"))
        let again = try cache.verify()
        #expect(again.checked == 196 && again.damaged.isEmpty && again.missing.isEmpty)
    }

    @Test("unreadable entries are named and kept")
    func unreadable() throws {
        let (world, cache) = try filled()
        let reads = Lock(0)
        world.files.inject { _, operation in
            guard operation == .read else { return nil }
            return reads.withLock { count in
                count += 1
                return count <= 3 ? .fail(.io) : nil
            }
        }
        let report = try cache.verify()
        #expect(report.unreadable.count == 3 && report.checked == 196 && cache.count == 199)
        #expect(cache.statistics.failures == 3)
        world.files.inject(nil)
        #expect(try cache.verify().isClean)
    }

    @Test("concurrent writers cause no false findings and no orphans")
    func concurrent() async throws {
        let home = try TemporaryDirectory()
        let cache = try DiskCache(directory: home.appending("cache"))
        for number in 0..<100 { try cache.setString("v", forKey: "\(number)") }
        await withTaskGroup(of: Void.self) { group in
            group.addTask {
                for round in 0..<3000 { try? cache.setString("w\(round)", forKey: "\(round % 150)") }
            }
            group.addTask {
                for _ in 0..<20 {
                    let report = try? cache.verify()
                    #expect(report?.isClean == true, "\(report?.description ?? "threw")")
                }
            }
        }
    }

    @Test("a closed cache throws")
    func closed() throws {
        let (_, cache) = try filled()
        try cache.close()
        #expect(code { try cache.verify() } == .closed)
    }
}
