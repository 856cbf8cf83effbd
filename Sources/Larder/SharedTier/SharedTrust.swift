import LarderFiles

/// Which local copies may be returned without asking the server.
///
/// Everything has a number, in the order in which it happened: each confirmation of a copy, each notice, each
/// connection. A copy is trusted if its last confirmation came after the connection and after all notices that concern
/// it. Forgetting a confirmation only costs a question.
struct SharedTrust: Sendable {
    enum Standing: Equatable, Sendable {
        /// Confirmed during this connection, and unchanged since.
        case trusted
        /// Not confirmed during this connection. It may be returned when the server cannot be asked.
        case unverified
        /// Somebody else has changed it. It must not be returned before the server confirms it.
        case noticed
    }

    /// The most keys and tags of each kind that are remembered.
    static let most = 100_000
    static let mostNotices = 10_000

    private(set) var last: UInt64 = 1
    private var connected: UInt64 = 1
    private var confirmed: [Key: UInt64] = [:]
    private var noticed: [Key: UInt64] = [:]
    private var noticedTags: [Key: UInt64] = [:]
    private var noticedAll: UInt64 = 0
    /// The keys that are being asked for, by the number of askers: a notice about them matters in any case.
    private var asked: [Key: Int] = [:]

    private mutating func number() -> UInt64 {
        last += 1
        return last
    }

    func standing(of key: Key, tags: [Key]) -> Standing {
        let confirmation = confirmed[key] ?? 0
        if notice(of: key, tags) > confirmation { return .noticed }
        return confirmation > connected ? .trusted : .unverified
    }

    private func notice(of key: Key, _ tags: [Key]) -> UInt64 {
        var notice = max(noticedAll, noticed[key] ?? 0)
        if !noticedTags.isEmpty { for tag in tags { notice = max(notice, noticedTags[tag] ?? 0) } }
        return notice
    }

    /// Begins a question. Returns its number.
    mutating func begin(_ key: Key) -> UInt64 {
        asked[key, default: 0] += 1
        return number()
    }

    mutating func end(_ key: Key) {
        guard let count = asked[key] else { return }
        asked[key] = count == 1 ? nil : count - 1
    }

    /// Confirms a copy by the answer to a question. False when a notice or a new connection has come since the question
    /// began: the answer may be older.
    mutating func confirm(_ key: Key, tags: [Key], since number: UInt64) -> Bool {
        guard notice(of: key, tags) < number, connected < number else { return false }
        confirm(key)
        return true
    }

    /// Whether an answer to a question that began with this number may be outdated.
    func isOutdated(_ key: Key, tags: [Key], since number: UInt64) -> Bool {
        notice(of: key, tags) > number || connected > number
    }

    /// Confirms a copy that this machine has stored itself.
    mutating func confirm(_ key: Key) {
        if confirmed.count >= Self.most { confirmed = [:] }
        confirmed[key] = number()
        noticed[key] = nil
    }

    mutating func forget(_ key: Key) {
        confirmed[key] = nil
        if asked[key] == nil { noticed[key] = nil }
    }

    /// Notes a change by somebody else. Without a local copy and without a question it concerns nothing.
    mutating func note(_ key: Key, hasCopy: Bool) -> Bool {
        guard hasCopy || asked[key] != nil else {
            confirmed[key] = nil
            return true
        }
        guard noticed.count < Self.mostNotices else {
            noteAll()
            return false
        }
        noticed[key] = number()
        return true
    }

    /// Notes that a tag was cleared; nil: everything.
    mutating func note(tag: Key?) {
        guard let tag, noticedTags.count < Self.mostNotices else { return noteAll() }
        noticedTags[tag] = number()
    }

    mutating func noteAll() {
        noticedAll = number()
        (noticed, noticedTags, confirmed) = ([:], [:], [:])
    }

    /// Begins a connection: every copy is unverified.
    mutating func connect() {
        connected = number()
    }
}
