import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// Copies, imports, evictions and exports. The story notes what has returned, and what has been evicted.
struct LimitStory: Sendable {
    static let large = String(repeating: "large ", count: 50_000)
    static let list = """
        <plist version="1.0"><dict><key>a/b</key><date>2099-01-01T00:00:00Z</date>
        <key>c</key><date>2099-01-01T00:00:00Z</date></dict></plist>
        """

    /// Every value that a key was ever given.
    var given: [String: Set<String>] = [:]
    /// The values stored by returned calls, while nothing has been evicted.
    var acknowledged: [String: String] = [:]
    var pending: Set<String> = []
    var hasEvicted = false
    /// Keys evicted by a returned trim, and not stored since.
    var gone: Set<String> = []

    mutating func storing(_ values: [String: String], in cache: DiskCache, _ store: () throws -> Void) throws {
        for (key, value) in values { given[key, default: []].insert(value) }
        gone.subtract(values.keys)
        pending = Set(values.keys)
        try store()
        try cache.requireLiving()
        pending = []
        acknowledged.merge(values) { $1 }
    }

    mutating func set(_ cache: DiskCache, _ key: String, _ value: String) throws {
        try storing([key: value], in: cache) { try cache.setString(value, forKey: key) }
    }

    /// Trims do not throw: their effect counts if the process outlived them.
    mutating func trim(_ cache: DiskCache, _ isDead: () -> Bool, _ body: (DiskCache) -> Void) throws {
        hasEvicted = true
        body(cache)
        if isDead() { throw CacheError(code: .io, message: "killed in a trim") }
        gone.formUnion(Set(given.keys).subtracting(cache.keys()))
    }

    /// Files to copy and to import, beside the cache.
    static func prepare(_ world: inout World) throws {
        for path in ["/old", "/out"] { _ = try world.files.openDirectory(path: path, creation: .plain) }
        var image = world.files.image
        image.add(Array("small".utf8), at: "/out/small")
        image.add(Array(Self.large.utf8), at: "/out/large")
        image.add(Array("before".utf8), at: "/out/target")
        image.add(Array(Self.list.utf8), at: "/old/EGOCache.plist")
        image.add(Array("ab".utf8), at: "/old/a_b")
        image.add(Array("c".utf8), at: "/old/c")
        world.restart(with: image)
    }

    mutating func tell(_ cache: DiskCache, isDead: () -> Bool) throws {
        let old = URL(fileURLWithPath: "/old", isDirectory: true)
        for number in 0..<3 { try set(cache, "k\(number)", "first \(number)") }
        try storing(["k0": "small"], in: cache) {
            try cache.copyFile(at: URL(fileURLWithPath: "/out/small"), forKey: "k0")
        }
        try storing(["large": Self.large], in: cache) {
            try cache.copyFile(at: URL(fileURLWithPath: "/out/large"), forKey: "large")
        }
        try storing(["a/b": "ab", "c": "c"], in: cache) {
            let report = try cache.importEGOCache(from: old)
            #expect(report.imported == ["a/b", "c"] || report.skipped.contains { $0.reason == .failed })
            if report.imported.count < 2 { throw CacheError(code: .io, message: "killed in the import") }
        }
        let isExported = try cache.exportFile(forKey: "large", to: URL(fileURLWithPath: "/out/target"))
        #expect(isExported || isDead())
        cache.settle()
        try trim(cache, isDead) { $0.trim(toCount: 5) }
        for number in 0..<8 { try set(cache, "n\(number)", "second \(number)") }
        try trim(cache, isDead) { $0.settle() }
        try set(cache, "n7", "third")
        try trim(cache, isDead) { $0.trim(toSize: 40) }
        try cache.verify()
        try set(cache, "k0", "last")
        try cache.close()
    }

    func check(_ cache: DiskCache, _ context: Comment) {
        for key in given.keys {
            let value = cache.string(forKey: key)
            if let value {
                let isPlausible = given[key]?.contains(value) == true
                #expect(isPlausible, "\(key), \(context)")
            }
            if gone.contains(key) {
                #expect(value == nil, "\(key) had been evicted, \(context)")
            } else if !hasEvicted, !pending.contains(key), let wanted = acknowledged[key] {
                let isThere = value == wanted
                #expect(isThere, "\(key), \(context)")
            }
        }
    }
}
