import LarderFiles

/// Keys whose last fetch has failed, each for as long as that is a reason not to try again: a bounded number of them.
struct FailureLog: Sendable {
    /// Failures that are kept in mind. With more, all are tried again.
    static let most = 10_000

    private var ends: [Key: Timestamp] = [:]

    var count: Int { ends.count }

    /// O(1) amortised.
    mutating func note(_ key: Key, until end: Timestamp, at now: Timestamp) {
        if ends.count >= Self.most {
            ends = ends.filter { now < $0.value }
            if ends.count > Self.most / 2 { ends = [:] }
        }
        ends[key] = end
    }

    func has(_ key: Key, at now: Timestamp) -> Bool { ends[key].map { now < $0 } ?? false }

    mutating func remove(_ key: Key) {
        ends[key] = nil
    }
}
