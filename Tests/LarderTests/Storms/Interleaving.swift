import Testing

@testable import Larder

/// A process is held within a set of the key `k`, after it has taken a number. Meanwhile another one does something.
struct Interleaving: CustomTestStringConvertible, Sendable {
    let name: String
    /// The value before, by the process that is held.
    var before: String?
    /// The calls of the other process.
    let act: @Sendable (DiskCache) throws -> Void
    /// The value afterwards. The call that is held stores `held`, with the tag `t`.
    let after: String?
    /// True when the other process may wait for the one that is held.
    var mayWait = false

    var testDescription: String { name }

    static let all = [
        // The higher number wins.
        Interleaving(name: "a set", act: { try $0.store("k", "other") }, after: "other"),
        Interleaving(
            name: "a set over a value", before: "old", act: { try $0.store("k", "other") }, after: "other"),
        // A removal has removed what it has seen.
        Interleaving(name: "a removal of nothing", act: { check(try $0.removeStored("k"), false) }, after: "held"),
        Interleaving(
            name: "a removal of a value", before: "old", act: { check(try $0.removeStored("k"), true) }, after: "held"),
        // The removal follows a set that has replaced the one that is held.
        Interleaving(
            name: "a set and its removal",
            act: { cache in
                try cache.store("k", "other")
                check(try cache.removeStored("k"), true)
            }, after: nil),
        Interleaving(
            name: "a set, its removal and two saves",
            act: { cache in
                try cache.store("k", "other")
                check(try cache.removeStored("k"), true)
                try cache.flush()
                try cache.store("l", "other")
                try cache.flush()
            }, after: nil),
        // The numbers of clears are higher.
        Interleaving(name: "a clear", before: "old", act: { try $0.namespace("").removeAll() }, after: nil),
        Interleaving(
            name: "a clear after another set",
            act: { cache in
                try cache.store("l", "other")
                try cache.namespace("").removeAll()
            }, after: nil),
        Interleaving(name: "a clear of its tag", before: "old", act: { try $0.removeAll(tagged: "t") }, after: nil),
        Interleaving(
            name: "a clear of another tag", before: "old", act: { try $0.removeAll(tagged: "u") }, after: "held"),
        Interleaving(
            name: "a clear of a namespace", before: "old",
            act: { cache in
                try cache.store("n/k", "other")
                try cache.namespace("n").removeAll()
            }, after: "held"),
        Interleaving(
            name: "a clear of everything, and a save", before: "old",
            act: { cache in
                try cache.removeAll()
                try cache.flush()
            }, after: nil),
        // It waits for the set, whose number is lower.
        Interleaving(
            name: "a conditional set", act: { check(try $0.storeIfAbsent("k", "other"), false) }, after: "held",
            mayWait: true),
        Interleaving(
            name: "a renewal", before: "old", act: { check(try $0.setTimeToLive(.hours(9), forKey: "k"), true) },
            after: "held"),
        Interleaving(name: "a save", before: "old", act: { try $0.flush() }, after: "held"),
        Interleaving(
            name: "three saves with changes", before: "old",
            act: { cache in
                for number in 0..<3 {
                    try cache.store("l", "\(number)")
                    try cache.flush()
                }
            }, after: "held"),
        Interleaving(
            name: "a sweep", before: "old", act: { check($0.removeExpired(), 0) }, after: "held"),
    ]

    static let appliedExpiry = Interleaving(
        name: "an expiry of its tag that has been applied", before: "old",
        act: { cache in
            try cache.expireAll(tagged: "t")
            cache.settle()
        }, after: nil)

    static let manySaves = Interleaving(
        name: "a set and two saves",
        act: { cache in
            try cache.store("k", "other")
            for _ in 0..<2 {
                try cache.flush()
                try cache.store("l", "other")
            }
            try cache.flush()
        }, after: "other")
}

func check<Value: Equatable>(_ value: Value, _ expected: Value) {
    #expect(value == expected)
}
