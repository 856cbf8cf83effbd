import Foundation
import LarderFiles
import LarderTestSupport
import Testing

@testable import Larder

/// Values that are kept beyond their expiry, as fetches store them.
extension DiskCache {
    func setKept(
        _ text: String, forKey key: String, ttl: TimeToLive = .hours(1), keptStale: Int64 = 60_000,
        tags: [String] = [], mustRevalidate: Bool = false, isAbsent: Bool = false, by permit: (any WritePermit)? = nil
    ) throws {
        let traits = Attachments.Traits(
            namespace: keyNamespace, tags: tags.map { self.key($0) }, keptStale: keptStale, isAbsent: isAbsent,
            mustRevalidate: mustRevalidate)
        let life = try #require(ttl.life(from: now, default: .default))
        var request = SetRequest(key: self.key(key), life: life, attachments: Attachments(traits), now: now)
        if let permit { request.condition = .ifPermitted(permit) }
        try Array(text.utf8).withBytes { bytes throws(CacheError) in _ = try store.set(bytes, request) }
    }

    /// Stores a value that is kept beyond its expiry, or one that is not.
    func set(
        _ text: String, forKey key: String, isKept: Bool, ttl: TimeToLive = .hours(1), tags: [String] = []
    ) throws {
        if isKept {
            try setKept(text, forKey: key, ttl: ttl, tags: tags)
        } else {
            try setString(text, forKey: key, ttl: ttl, tags: tags)
        }
    }

    /// The value that a fetch may use: a fresh one, or an expired one that is kept.
    func usable(_ key: String) -> String? {
        store.read(self.key(key), at: now, orStale: true) { directory, entry in directory.payload(of: entry) }
            .map { String(decoding: $0, as: UTF8.self) }
    }

    /// Restarts the life of a known entry, as "not modified" does.
    func renew(_ key: String, ttl: TimeToLive = .hours(1)) throws -> Bool {
        let key = self.key(key)
        let known = try #require(store.index.entry(key))
        let life = try #require(ttl.life(from: now, default: .default))
        return try store.renew(known, key, Store.Renewal(life: life), with: EverybodysPermit())
    }

    /// The path of an entry's file.
    func entryPath(forKey key: String) throws -> String {
        "/cache/entries/" + (try #require(entryFileName(forKey: key)))
    }

    func keptUntil(_ key: String) -> Int64? { store.index.entry(self.key(key))?.keptUntil.milliseconds }
}

struct EverybodysPermit: WritePermit {
    func isValid(for key: Key) -> Bool { true }
}

/// The ways in which a caller expires the entry "k".
enum Invalidation: CaseIterable {
    case key, tag, namespace, root

    var namespace: String { self == .namespace ? "space" : "" }

    func apply(to cache: DiskCache) throws {
        let cache = cache.namespace(namespace)
        switch self {
        case .key: #expect(try cache.expireValue(forKey: "k"))
        case .tag: try cache.expireAll(tagged: "t")
        case .namespace, .root: try cache.expireAll()
        }
    }

    /// Opens the directory, and the part of it in which the entry is.
    func open(_ world: World) throws -> (cache: DiskCache, part: DiskCache) {
        let cache = try world.open()
        return (cache, cache.namespace(namespace))
    }

    static let scopes: [Invalidation] = [.tag, .namespace, .root]

    /// The same, whether there is a fresh value or not.
    func end(in cache: DiskCache) throws {
        if self == .key {
            _ = try cache.namespace(namespace).expireValue(forKey: "k")
        } else {
            try apply(to: cache)
        }
    }
}

extension World {
    /// Deletes parts of the index.
    mutating func lose(_ loss: [String] = ["manifest.json", "journal"]) {
        for name in names where loss.contains(where: { name.hasPrefix($0) }) { remove(name) }
    }
}
