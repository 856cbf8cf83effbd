import Foundation
import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// What a process does that fetches through a cache.
enum FetchSteps {
    /// The known values by key.
    typealias Known = [String: String]

    /// A step, and the resulting values of the keys that it changes; nil: none.
    struct Step: Sendable {
        let name: String
        let after: [String: String?]
        let run: @Sendable (Cache<String>, World) async throws -> Void
    }

    static let policy = FetchPolicy.staleIfError(for: .days(30))

    static let all: [Step] = [
        Step(name: "fetch", after: ["a": "a1"]) { cache, _ in
            _ = try await cache.value(forKey: "a", ttl: .hours(1), tags: ["t"], policy: policy) { "a1" }
        },
        Step(name: "absent", after: ["b": "absent"]) { cache, _ in
            _ = try await cache.optionalValue(forKey: "b", absentTTL: .days(9), tags: ["t"]) { nil }
        },
        Step(name: "set with tags", after: ["c": "c1"]) { cache, _ in
            try await cache.setValue("c1", forKey: "c", ttl: .days(9), tags: ["t", "u"])
        },
        Step(name: "set with another tag", after: ["d": "d1"]) { cache, _ in
            try await cache.setValue("d1", forKey: "d", ttl: .days(9), tags: ["u"])
        },
        Step(name: "set without", after: ["e": "e1"]) { cache, _ in
            try await cache.setValue("e1", forKey: "e", ttl: .days(9))
        },
        Step(name: "revalidate", after: ["a": "a1"]) { cache, world in
            world.clock.set(milliseconds: world.clock.milliseconds + 7_200_000)
            let answer = try await cache.value(forKey: "a", ttl: .days(9), tags: ["t"], policy: policy) { cached in
                cached == nil ? .value("lost") : .notModified(metadata: ["etag": "2"])
            }
            guard answer == "a1" else { throw SourceFailure() }
        },
        Step(name: "absent where a value was", after: ["e": "absent"]) { cache, _ in
            _ = try await cache.optionalValue(forKey: "e", absentTTL: .days(9), policy: .reload) { nil }
        },
        Step(name: "set without, then with a tag", after: ["b": "b2"]) { cache, _ in
            try await cache.setValue("b1", forKey: "b", ttl: .days(9))
            try await cache.setValue("b2", forKey: "b", ttl: .days(9), tags: ["t"])
        },
        Step(name: "remove a tag", after: ["a": nil, "b": nil, "c": nil]) { cache, _ in
            try await cache.removeAll(tagged: "t")
        },
        Step(name: "fetch again", after: ["a": "a2"]) { cache, _ in
            _ = try await cache.value(forKey: "a", ttl: .days(9), tags: ["t"], policy: policy) { "a2" }
        },
        Step(name: "absent again", after: ["c": "absent"]) { cache, _ in
            _ = try await cache.optionalValue(forKey: "c", absentTTL: .days(9), tags: ["u"]) { nil }
        },
        Step(name: "save", after: [:]) { cache, _ in try await cache.flush() },
        Step(name: "remove another tag", after: ["c": nil, "d": nil]) { cache, _ in
            try await cache.removeAll(tagged: "u")
        },
        Step(name: "a value where none was", after: ["e": "e2"]) { cache, _ in
            _ = try await cache.optionalValue(forKey: "e", ttl: .days(9), tags: ["t"], policy: .reload) { "e2" }
        },
        Step(name: "remove", after: ["a": nil]) { cache, _ in try await cache.removeValue(forKey: "a") },
        Step(name: "remove an absence", after: ["c": nil]) { cache, _ in
            _ = try await cache.optionalValue(forKey: "c", absentTTL: .days(9)) { nil }
            try await cache.removeValue(forKey: "c")
        },
        Step(name: "close", after: [:]) { cache, _ in try await cache.close() },
    ]

    static func known(_ cache: Cache<String>) async -> Known {
        var known: Known = [:]
        for text in ["a", "b", "c", "d", "e"] {
            let key = cache.backend.key(text)
            if cache.backend.isProvisional { await cache.backend.settle([key]) }
            switch cache.backend.freshness(of: key, at: cache.backend.clock.now) {
            case .absent: known[text] = "absent"
            case .fresh, .stale: known[text] = await cache.backend.storedValue(for: key)?.value
            case .missing: break
            }
        }
        return known
    }
}
