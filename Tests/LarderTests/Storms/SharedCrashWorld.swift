import Foundation
import LarderFiles
import Testing

@testable import Larder
@testable import LarderTesting

/// Two processes on one directory: the one that is killed, and the other, which lives on.
struct SharedCrashWorld {
    /// The values of all keys, each with its life. Keys of the namespace `n` have the prefix `n/`.
    typealias Content = [String: String]

    static let keys = ["a", "b", "c", "d", "z", "n/a", "n/b"]
    /// The content before the step.
    static let before: Content = [
        "a": "a0 1 h", "b": "b0 1 h", "c": "c0 1 h", "d": "d0 1 h", "n/a": "na0 1 h", "n/b": "nb0 1 h",
    ]

    var killed: World
    var other: World
    /// Nil before the step opens it.
    var victim: DiskCache?
    /// Nil until somebody opens it.
    var survivor: DiskCache?

    init(_ step: SharedStep) throws {
        killed = World.shared {
            $0.entriesPerGroup = 2
            step.configure(&$0)
        }
        killed.files = MemoryFileSystem(try Self.disk.get())
        other = killed.anotherProcess()
        if step.hasSurvivor { survivor = try other.open() }
        if step.hasVictim {
            victim = try killed.open()
            // Each has stored some of them, and the tags are on values of both.
            try victim?.store("b", "b0", tags: ["t"])
            try survivor?.store("c", "c0", tags: ["t"])
            try survivor?.store("n/b", "nb0", tags: ["t"])
        }
        try step.prepare(self)
        victim?.settle()
        survivor?.settle()
    }

    /// A disk with two files to copy in, and what a first session has left, which ended cleanly.
    private static let disk = Result {
        var image = MemoryImage()
        image.addDirectory(at: "/out")
        for (name, size) in [("small", 5), ("large", Store.smallFile + 1)] {
            image.add([UInt8](repeating: UInt8(ascii: "f"), count: size), at: "/out/" + name)
        }
        let world = World.shared { $0.entriesPerGroup = 2 }.with(MemoryFileSystem(image))
        let cache = try world.open()
        for key in keys where key != "z" {
            try cache.store(key, key.filter { $0 != "/" } + "0", tags: ["b", "c", "n/b"].contains(key) ? ["t"] : [])
        }
        try cache.flush()
        try cache.close()
        return world.files.image
    }

    /// Opens the process that will be killed.
    mutating func openVictim() throws {
        victim = try killed.open()
    }

    /// The words of the page, to see which accesses change it.
    var page: MemoryFileSystem.MappedFile? { killed.files.state.withLock { $0.mapped.values.first } }
}

extension DiskCache {
    /// The handle on the part of a key, and the key in it.
    private func part(_ key: String) -> (DiskCache, String) {
        key.hasPrefix("n/") ? (namespace("n"), String(key.dropFirst(2))) : (self, key)
    }

    func store(_ key: String, _ value: String, tags: [String] = []) throws {
        let (part, key) = part(key)
        try part.setString(value, forKey: key, ttl: .hours(1), tags: tags)
    }

    /// Returns whether the value was stored.
    func storeIfAbsent(_ key: String, _ value: String) throws -> Bool {
        let (part, key) = part(key)
        let life = try #require(TimeToLive.hours(1).life(from: part.now, default: .default))
        let request = SetRequest(
            key: part.key(key), life: life, attachments: try part.attachments([:], []), now: part.now,
            condition: .ifNotFresh)
        return try Array(value.utf8).withBytes { bytes throws(CacheError) in try store.set(bytes, request) }
    }

    func removeStored(_ key: String) throws -> Bool {
        let (part, key) = part(key)
        return try part.removeValue(forKey: key)
    }

    /// The value and the rest of its life; nil: none.
    func stored(_ key: String) -> String? {
        let (part, key) = part(key)
        guard let value = part.string(forKey: key) else { return nil }
        guard let expiry = part.entry(forKey: key)?.expiresAt else { return value + " without an entry" }
        let hours = (expiry.timeIntervalSince1970 * 1000 - Double(part.now.milliseconds)) / 3_600_000
        return "\(value.prefix(20)) \(Int(hours.rounded())) h"
    }

    /// All that is stored.
    var content: SharedCrashWorld.Content {
        var content: SharedCrashWorld.Content = [:]
        for key in SharedCrashWorld.keys { content[key] = stored(key) }
        return content
    }
}
