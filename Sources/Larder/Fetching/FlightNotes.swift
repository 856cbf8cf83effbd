import LarderFiles

/// Keys whose last fetch failed, each for as long as that is a reason not to try again. Bounded.
///
/// Its methods return the errors that they remove, so that none is released under a lock.
struct FailureLog: Sendable {
    /// The most failures that are kept. Beyond it all keys may be tried again.
    static let most = 10_000

    struct Name: Hashable {
        let key: Key
        /// The type of the values.
        let type: ObjectIdentifier
    }

    /// A reason not to try again.
    struct Failure {
        let error: any Error
        let begin: Timestamp
        /// Until when it counts.
        let end: Timestamp
    }

    private var failures: [Name: Failure] = [:]
    /// The failures so far.
    private(set) var last: UInt64 = 0

    var count: Int { failures.count }

    /// O(1) amortized.
    mutating func note(_ name: Name, _ failure: Failure) -> [any Error] {
        last += 1
        var gone: [any Error] = []
        if failures.count >= Self.most {
            let rest = failures.filter { failure.begin < $0.value.end }
            gone = failures.values.map(\.error)
            failures = rest.count > Self.most / 2 ? [:] : rest
        }
        if let old = failures.updateValue(failure, forKey: name) { gone.append(old.error) }
        return gone
    }

    func error(of name: Name, at now: Timestamp) -> (any Error)? {
        guard !failures.isEmpty, let failure = failures[name], now < failure.end else { return nil }
        return failure.error
    }

    func has(_ name: Name) -> Bool { failures[name] != nil }

    mutating func remove(_ name: Name) -> (any Error)? {
        failures.isEmpty ? nil : failures.removeValue(forKey: name)?.error
    }
}

/// The watch over one key while its value is being modified.
final class Watch: Sendable {
    let key: Key

    init(_ key: Key) {
        self.key = key
    }
}

/// The watches whose keys have not changed.
struct Watches: Sendable {
    private var watches: [Key: [Watch]] = [:]

    mutating func add(_ watch: Watch) {
        watches[watch.key, default: []].append(watch)
    }

    mutating func remove(_ watch: Watch) {
        watches[watch.key]?.removeAll { $0 === watch }
        if watches[watch.key]?.isEmpty == true { watches[watch.key] = nil }
    }

    func isUnchanged(_ watch: Watch) -> Bool {
        watches[watch.key]?.contains { $0 === watch } ?? false
    }

    mutating func noteChange(of key: Key) {
        if !watches.isEmpty { watches[key] = nil }
    }

    mutating func noteChanges(where isChanged: (Key) -> Bool) {
        if !watches.isEmpty { watches = watches.filter { !isChanged($0.key) } }
    }
}

/// The tags that were cleared while flights were under way, whose values may get tags that are not known yet. Bounded.
struct TagClears: Sendable {
    private static let most = 1000

    private(set) var last: UInt64 = 0
    private var numbers: [Key: UInt64] = [:]
    /// Any tag may have been cleared up to here.
    private var forgotten: UInt64 = 0

    mutating func note(_ tag: Key, isAnyUnderWay: Bool) {
        last += 1
        if !isAnyUnderWay || numbers.count >= Self.most {
            numbers = [:]
            forgotten = last
        }
        numbers[tag] = last
    }

    func hasAny(of tags: [Key], after number: UInt64) -> Bool {
        if tags.isEmpty { return false }
        return number < forgotten || tags.contains { number < numbers[$0] ?? 0 }
    }
}
