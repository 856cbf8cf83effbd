import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// One step of a process that is killed in it.
struct SharedStep: CustomTestStringConvertible, Sendable {
    typealias Content = SharedCrashWorld.Content

    let name: String
    var hasVictim = true
    var hasSurvivor = true
    var configure: @Sendable (inout DiskCache.Configuration) -> Void = { _ in }
    /// The calls of both before the step.
    var prepare: @Sendable (SharedCrashWorld) throws -> Void = { _ in }
    /// The content that the processes find when the step has returned.
    var after = SharedCrashWorld.before
    /// Other content that they may find if it has not, besides that before and after.
    var between: [Content] = []
    /// The keys that a limit may remove at any time.
    var mayLose: Set<String> = []
    let act: @Sendable (inout SharedCrashWorld) async throws -> Void

    var testDescription: String { name }

    /// True when a content is possible.
    func allows(_ content: Content, isDone: Bool) -> Bool {
        let possible = isDone ? [after] : [SharedCrashWorld.before, after] + between
        return possible.contains { expected in
            if mayLose.isEmpty { return content == expected }
            return content.allSatisfy { expected[$0.key] == $0.value }
                && expected.keys.allSatisfy { content[$0] != nil || mayLose.contains($0) }
        }
    }

    private static func before(_ changes: Content) -> Content {
        SharedCrashWorld.before.merging(changes) { $1 }
    }

    private static func before(without keys: String...) -> Content {
        SharedCrashWorld.before.filter { !keys.contains($0.key) }
    }

    static let all: [SharedStep] = openings + changes + clears + maintenance

    private static let openings = [
        SharedStep(name: "open first", hasVictim: false, hasSurvivor: false) { try $0.openVictim() },
        SharedStep(
            name: "open first after a kill", hasVictim: false, hasSurvivor: false,
            prepare: { world in
                let files = world.killed.files.another()
                let cache = try world.killed.with(files).open()
                try cache.store("b", "b0", tags: ["t"])
                try cache.store("d", "d1")
                try cache.store("d", "d0")
                files.kill()
            }, act: { try $0.openVictim() }),
        SharedStep(name: "open beside another", hasVictim: false) { try $0.openVictim() },
        SharedStep(
            name: "open beside another with changes, after a death", hasVictim: false,
            prepare: { world in
                let files = world.killed.files.another()
                let cache = try world.killed.with(files).open()
                try cache.store("b", "b0", tags: ["t"])
                files.kill()
                try world.survivor?.store("c", "c0", tags: ["t"])
            }, act: { try $0.openVictim() }),
        SharedStep(name: "close") { try $0.victim?.close() },
        SharedStep(name: "close as the last", hasSurvivor: false) { try $0.victim?.close() },
    ]

    static let changes = [
        SharedStep(name: "set a new value", after: before(["z": "z1 1 h"])) { try $0.victim?.store("z", "z1") },
        SharedStep(name: "overwrite an own value", after: before(["b": "b1 1 h"])) {
            try $0.victim?.store("b", "b1")
        },
        SharedStep(name: "overwrite a value of the other", after: before(["c": "c1 1 h"])) {
            try $0.victim?.store("c", "c1")
        },
        SharedStep(name: "remove an own value", after: before(without: "b")) {
            let isRemoved = try $0.victim?.removeStored("b")
            #expect(isRemoved == true || $0.killed.files.isDead)
        },
        SharedStep(name: "remove a value of the other", after: before(without: "c")) {
            let isRemoved = try $0.victim?.removeStored("c")
            #expect(isRemoved == true || $0.killed.files.isDead)
        },
        SharedStep(name: "set if absent, absent", after: before(["z": "z1 1 h"])) {
            _ = try $0.victim?.storeIfAbsent("z", "z1")
        },
        SharedStep(name: "set if absent, present") { _ = try $0.victim?.storeIfAbsent("c", "c1") },
        SharedStep(name: "modify", after: before(["c": "c0! 1 h"])) {
            let cache = Cache<String>(disk: try #require($0.victim), namespace: "")
            try await cache.modifyValue(forKey: "c", ttl: .hours(1)) { $0 = ($0 ?? "") + "!" }
        },
        SharedStep(name: "renew a life", after: before(["c": "c0 9 h"])) {
            _ = try $0.victim?.setTimeToLive(.hours(9), forKey: "c")
        },
        SharedStep(
            name: "copy a small file in", after: before(["z": "fffff 1 h"])
        ) {
            try $0.victim?.copyFile(at: URL(fileURLWithPath: "/out/small"), forKey: "z", ttl: .hours(1))
        },
        SharedStep(
            name: "copy a large file in",
            after: before(["z": String(repeating: "f", count: 20) + " 1 h"])
        ) {
            try $0.victim?.copyFile(at: URL(fileURLWithPath: "/out/large"), forKey: "z", ttl: .hours(1))
        },
    ]

    private static let clears = [
        SharedStep(name: "clear a namespace", after: before(without: "n/a", "n/b")) {
            try $0.victim?.namespace("n").removeAll()
        },
        SharedStep(name: "clear a tag", after: before(without: "b", "c")) { try $0.victim?.removeAll(tagged: "t") },
        SharedStep(name: "clear the part without a namespace", after: before(without: "a", "b", "c", "d")) {
            try $0.victim?.namespace("").removeAll()
        },
        // One namespace after another.
        SharedStep(
            name: "clear everything", after: [:],
            between: [before(without: "n/a", "n/b"), before(without: "a", "b", "c", "d")]
        ) { try $0.victim?.removeAll() },
        SharedStep(name: "expire a tag", after: before(without: "b", "c")) { try $0.victim?.expireAll(tagged: "t") },
    ]

    private static let maintenance = [
        SharedStep(name: "save") { try $0.victim?.flush() },
        SharedStep(
            name: "save removals and changes of both",
            prepare: { world in
                try world.victim?.store("z", "z0")
                _ = try world.survivor?.removeStored("z")
                try world.survivor?.store("b", "b0", tags: ["t"])
                try world.victim?.store("c", "c0", tags: ["t"])
            }, act: { try $0.victim?.flush() }),
        SharedStep(
            name: "catch up",
            prepare: { world in
                for number in 0..<30 { try world.survivor?.store("d", "d\(number)") }
                try world.survivor?.store("d", "d0")
                _ = try world.survivor?.removeStored("z")
            }, act: { world in #expect(world.victim?.stored("d") == "d0 1 h" || world.killed.files.isDead) }),
        SharedStep(
            name: "catch up after many saves of the other",
            prepare: { world in
                for number in 0..<5 {
                    try world.survivor?.store("d", "d\(number)")
                    try world.survivor?.flush()
                }
                try world.survivor?.store("d", "d0")
            }, act: { world in #expect(world.victim?.stored("d") == "d0 1 h" || world.killed.files.isDead) }),
        SharedStep(
            name: "sweep",
            prepare: { world in
                try world.victim?.setString("x", forKey: "x", ttl: .seconds(1))
                try world.survivor?.setString("y", forKey: "y", ttl: .seconds(1))
                world.killed.clock.set(milliseconds: world.killed.clock.now.milliseconds + 2_000)
            }, act: { _ = $0.victim?.removeExpired() }),
        SharedStep(
            name: "evict", after: before(["z": "z1 1 h"]), mayLose: Set(SharedCrashWorld.keys),
            act: { world in
                try world.victim?.store("z", "z1")
                world.victim?.trim(toCount: 3)
            }),
    ]
}
