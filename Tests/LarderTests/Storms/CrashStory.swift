import LarderTesting
import Testing

@testable import Larder

/// A day in the life of a cache. Each step notes the change that it begins, and its return.
struct CrashStory: Sendable {
    /// The values that a key may have: the last acknowledged one, and that of a call that has not returned.
    var acknowledged: [String: String] = [:]
    var pending: [String: String?] = [:]
    var isClearing = false
    var isClearingRoot = false
    /// Every value ever given to a key.
    var given: [String: Set<String>] = [:]

    mutating func set(_ cache: DiskCache, _ key: String, _ value: String, ttl: TimeToLive = .default) throws {
        given[key, default: []].insert(value)
        pending = [key: value]
        try cache.setKept(value, forKey: key, ttl: ttl, keptStale: Self.kept(key), tags: ["t"])
        try cache.requireLiving()
        acknowledged[key] = value
        pending = [:]
    }

    /// Every other value is kept beyond its expiry.
    static func kept(_ key: String) -> Int64 { (key.utf8.last ?? 0) % 2 == 0 ? 3_600_000 : 0 }

    mutating func expire(_ cache: DiskCache, _ key: String) throws {
        pending = [key: nil]
        try cache.expireValue(forKey: key)
        try cache.requireLiving()
        acknowledged[key] = nil
        pending = [:]
    }

    mutating func expireSpace(_ cache: DiskCache) throws {
        for key in acknowledged.keys where key.hasPrefix("space/") { pending[key] = .some(nil) }
        try cache.namespace("space").expireAll()
        try cache.requireLiving()
        for key in pending.keys { acknowledged[key] = nil }
        pending = [:]
    }

    /// Expires everything without a namespace, by scope or by tag.
    mutating func expireRoot(_ cache: DiskCache, tagged: Bool = false) throws {
        for key in acknowledged.keys where !key.hasPrefix("space/") { pending[key] = .some(nil) }
        isClearingRoot = true
        if tagged { try cache.expireAll(tagged: "t") } else { try cache.namespace("").expireAll() }
        try cache.requireLiving()
        for key in pending.keys { acknowledged[key] = nil }
        pending = [:]
        isClearingRoot = false
    }

    mutating func remove(_ cache: DiskCache, _ key: String) throws {
        pending = [key: nil]
        try cache.removeValue(forKey: key)
        try cache.requireLiving()
        acknowledged[key] = nil
        pending = [:]
    }

    /// Keys of a namespace are noted with the prefix of its name and a slash.
    mutating func setInSpace(_ cache: DiskCache, _ key: String, _ value: String) throws {
        given["space/" + key, default: []].insert(value)
        pending = ["space/" + key: value]
        try cache.namespace("space").setKept(
            value, forKey: key, ttl: .default, keptStale: Self.kept(key), tags: ["t"])
        try cache.requireLiving()
        acknowledged["space/" + key] = value
        pending = [:]
    }

    mutating func removeSpace(_ cache: DiskCache) throws {
        for key in acknowledged.keys where key.hasPrefix("space/") { pending[key] = .some(nil) }
        try cache.namespace("space").removeAll()
        try cache.requireLiving()
        for key in pending.keys { acknowledged[key] = nil }
        pending = [:]
    }

    /// Removes everything without a namespace.
    mutating func removeRoot(_ cache: DiskCache) throws {
        for key in acknowledged.keys where !key.hasPrefix("space/") { pending[key] = .some(nil) }
        isClearingRoot = true
        try cache.namespace("").removeAll()
        try cache.requireLiving()
        for key in pending.keys { acknowledged[key] = nil }
        pending = [:]
        isClearingRoot = false
    }

    mutating func removeAll(_ cache: DiskCache) throws {
        isClearing = true
        try cache.removeAll()
        try cache.requireLiving()
        acknowledged = [:]
        isClearing = false
    }

    /// A first session with a clean close, so that the next one begins with a trusted index.
    mutating func begin(_ world: inout World) throws {
        let cache = try world.open()
        for number in 0..<8 { try set(cache, "k\(number)", "before \(number)") }
        try set(cache, "k7", "before all")
        for number in 0..<4 { try setInSpace(cache, "k\(number)", "before in space") }
        try remove(cache, "k6")
        try cache.close()
        world.restart()
    }

    mutating func tell(_ cache: DiskCache, _ world: World) throws {
        for number in 0..<6 { try set(cache, "k\(number)", "first \(number)") }
        try set(cache, "k1", "second")
        for number in 0..<3 { try setInSpace(cache, "k\(number)", "first in space") }
        try removeSpace(cache)
        try setInSpace(cache, "k0", "second in space")
        try remove(cache, "k7")
        try remove(cache, "k2")
        try cache.setTimeToLive(.hours(1), forKey: "k3")
        try cache.setTimeToLive(.days(9), forKey: "k4")
        cache.settle()
        try cache.flush()
        try set(cache, "k1", "third")
        try remove(cache, "k5")
        try set(cache, "k2", "again")
        world.clock.advance(by: .seconds(1))
        cache.settle()
        try removeRoot(cache)
        try set(cache, "k1", "after the root")
        try expire(cache, "k1")
        for number in 2..<4 { try set(cache, "k\(number)", "to be expired") }
        try expireRoot(cache, tagged: true)
        try set(cache, "k1", "after the end")
        try setInSpace(cache, "k1", "after the root")
        cache.settle()
        try removeAll(cache)
        cache.settle()
        try set(cache, "k0", "after")
        try remove(cache, "k0")
        try set(cache, "k0", "after all")
        try set(cache, "k6", "last")
        for number in 0..<3 { try setInSpace(cache, "k\(number)", "last in space") }
        try removeRoot(cache)
        try set(cache, "k3", "last of all")
        try removeSpace(cache)
        // No namespace has entries now.
        try removeRoot(cache)
        try setInSpace(cache, "k2", "last of all")
        try set(cache, "k4", "last of all")
        try cache.close()
    }

    func check(_ cache: DiskCache, _ context: Comment) {
        var left: Set<Bool> = []
        for key in (0..<8).map({ "k\($0)" }) {
            var allowed: Set<String?> = [acknowledged[key]]
            if let pending = pending[key] { allowed.insert(pending) }
            if isClearing { allowed.insert(nil) }
            let value = cache.string(forKey: key)
            #expect(allowed.contains(value), "\(key), \(context)")
            if isClearingRoot, allowed.count == 2 { left.insert(value != nil) }
        }
        #expect(left.count <= 1, "the part without a namespace is removed as a whole, \(context)")
        left = []
        for key in (0..<4).map({ "k\($0)" }) {
            var allowed: Set<String?> = [acknowledged["space/" + key]]
            if let pending = pending["space/" + key] { allowed.insert(pending) }
            if isClearing { allowed.insert(nil) }
            let value = cache.namespace("space").string(forKey: key)
            #expect(allowed.contains(value), "space, \(key), \(context)")
            if allowed.count == 2, allowed.contains(nil) { left.insert(value != nil) }
        }
        #expect(left.count <= 1, "a namespace is removed as a whole, \(context)")
    }

    /// After a power cut without syncs, changes may be lost, but every value was once stored for its key.
    func checkPlausible(_ cache: DiskCache, _ context: Comment) {
        for key in cache.keys() {
            guard let value = cache.string(forKey: key) else { continue }
            #expect(given[key]?.contains(value) == true, "\(key), \(context)")
        }
    }
}
