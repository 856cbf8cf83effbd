import LarderFiles

/// Which local copies may be returned without asking the server.
///
/// Everything has a number, in the order in which it happened: each confirmation of a copy, each notice, each
/// connection. A copy is trusted if its last confirmation came after the connection and after all notices that concern
/// it. Forgetting a confirmation only costs a question. A notice is kept until the copy that it concerns is gone.
struct RemoteTrust: Sendable {
    enum Standing: Equatable, Sendable {
        /// Confirmed during this connection, and unchanged since.
        case trusted
        /// Not confirmed during this connection. It may be returned when the server cannot be asked.
        case unverified
        /// Somebody else has changed it. It must not be returned before the server confirms it.
        case noticed
    }

    /// A change by somebody else.
    struct Notice: Sendable {
        let number: UInt64
        /// Nil: not known.
        let version: RemoteVersion?
        /// Whether there may be a copy from before it.
        var hasCopy = true

        /// Whether a copy of this version is from before the change, or may be, where there is no version to compare.
        func concerns(_ copy: RemoteVersion?) -> Bool {
            guard let version, let copy else { return true }
            return copy < version
        }

        /// The notice that concerns what both do.
        fileprivate func joined(with other: Notice?) -> Notice {
            guard let other else { return self }
            let highest = version.flatMap { own in other.version.map { max(own, $0) } }
            return Notice(number: number, version: highest, hasCopy: hasCopy || other.hasCopy)
        }
    }

    /// The most keys and tags of each kind that are remembered.
    static let most = 100_000

    private(set) var last: UInt64 = 1
    private var connected: UInt64 = 1
    private var confirmed: [Key: UInt64] = [:]
    private var noticed: [Key: Notice] = [:]
    /// By tag; nil: the whole namespace.
    private var cleared: [Key?: Notice] = [:]
    private var noticedAll: UInt64 = 0
    /// The clears whose copies are gone: answers from before them may be outdated.
    private var resolvedClears: [Key?: Notice] = [:]
    /// The last of those that are kept no longer.
    private var forgottenClear: UInt64 = 0
    /// The most of them that are kept.
    static let mostResolved = 1000
    /// The keys that are being asked for, by the number of askers: a notice about them matters in any case.
    private var asked: [Key: Int] = [:]
    /// The notices whose copies are still to be removed.
    private var unresolved: Set<Key> = []
    private var unresolvedClears: Set<Key?> = []

    private mutating func number() -> UInt64 {
        last += 1
        return last
    }

    /// Returns the number of something that happens now.
    mutating func next() -> UInt64 { number() }

    /// `version` is that of a copy that waits to be sent: older changes do not concern it. Any other copy is asked for,
    /// as the server may have accepted an older change because it has forgotten the copy, or its clock was set back.
    func standing(of key: Key, tags: [Key], version: RemoteVersion?) -> Standing {
        let confirmation = confirmed[key] ?? 0
        if notice(of: key, tags, version) > confirmation { return .noticed }
        return confirmation > connected ? .trusted : .unverified
    }

    /// The number of the last notice that concerns a copy.
    private func notice(of key: Key, _ tags: [Key], _ version: RemoteVersion?) -> UInt64 {
        func number(_ notice: Notice?) -> UInt64 { notice.map { $0.concerns(version) ? $0.number : 0 } ?? 0 }
        var last = max(noticedAll, number(noticed[key]))
        if !cleared.isEmpty {
            last = max(last, number(cleared[nil]))
            for tag in tags { last = max(last, number(cleared[tag])) }
        }
        return last
    }

    /// Whether a copy is older than a change that has been heard of since it was confirmed.
    func isOld(_ key: Key, tags: [Key], version: RemoteVersion) -> Bool {
        let confirmation = confirmed[key] ?? 0
        return ([noticed[key], cleared[nil]] + tags.map { cleared[$0] }).contains { notice in
            guard let notice, let change = notice.version else { return false }
            return notice.number > confirmation && version < change
        }
    }

    /// Begins a question. Returns its number.
    mutating func begin(_ key: Key) -> UInt64 {
        asked[key, default: 0] += 1
        return number()
    }

    mutating func end(_ key: Key) {
        guard let count = asked[key] else { return }
        asked[key] = count == 1 ? nil : count - 1
        if count == 1, noticed[key]?.hasCopy == false { noticed[key] = nil }
    }

    /// Confirms a copy by the answer to a question. False when a notice or a new connection has come since the question
    /// began: the answer may be older.
    mutating func confirm(_ key: Key, tags: [Key], version: RemoteVersion?, since number: UInt64) -> Bool {
        if isOutdated(key, tags: tags, version: version, since: number) {
            // There is a copy now.
            if noticed[key]?.hasCopy == false {
                noticed[key]?.hasCopy = true
                unresolved.insert(key)
            }
            return false
        }
        if confirmed.count >= Self.most { confirmed = [:] }
        confirmed[key] = self.number()
        forgetNotice(key)
        return true
    }

    /// Whether an answer to a question that began with this number, with a value of this version, may be outdated.
    func isOutdated(_ key: Key, tags: [Key], version: RemoteVersion?, since number: UInt64) -> Bool {
        if number < max(notice(of: key, tags, version), connected, forgottenClear) { return true }
        if resolvedClears.isEmpty { return false }
        return ([nil] + tags.map { Key?.some($0) }).contains { tag in
            resolvedClears[tag].map { number < $0.number && $0.concerns(version) } ?? false
        }
    }

    /// Forgets what was noted, up to a number, about a copy that is gone.
    mutating func forget(_ key: Key, upTo number: UInt64) {
        if let confirmation = confirmed[key], confirmation <= number { confirmed[key] = nil }
        forgetNotice(key, upTo: number)
    }

    /// Forgets the notice about a key, unless another one has come meanwhile.
    mutating func forgetNotice(_ key: Key, upTo number: UInt64) {
        if let notice = noticed[key], notice.number <= number { forgetNotice(key) }
    }

    /// A question that is under way has to know that a notice has come.
    private mutating func forgetNotice(_ key: Key) {
        unresolved.remove(key)
        if asked[key] == nil { noticed[key] = nil } else { noticed[key]?.hasCopy = false }
    }

    /// Begins a connection: every copy is unverified.
    mutating func connect() {
        connected = number()
        resolvedClears = [:]
    }
}

/// Notices.
extension RemoteTrust {
    /// Notes a change by somebody else. Without a local copy and without a question it concerns nothing. Returns false
    /// when it was one too many, and now everything counts as changed.
    mutating func note(_ key: Key, version: RemoteVersion?, hasCopy: Bool) -> Bool {
        guard hasCopy || asked[key] != nil else {
            confirmed[key] = nil
            return true
        }
        guard noticed.count < Self.most else {
            noteAll()
            return false
        }
        noticed[key] = Notice(number: number(), version: version, hasCopy: hasCopy).joined(with: noticed[key])
        if hasCopy { unresolved.insert(key) }
        return true
    }

    /// Notes that a tag was cleared; nil: the namespace.
    mutating func note(clearOf tag: Key?, version: RemoteVersion?) {
        guard let version, cleared.count < Self.most else { return noteAll() }
        cleared[tag] = Notice(number: number(), version: version).joined(with: cleared[tag])
        unresolvedClears.insert(tag)
    }

    /// Notes that everything may have changed.
    mutating func noteAll() {
        noticedAll = number()
        (noticed, cleared, confirmed) = ([:], [:], [:])
        (unresolved, unresolvedClears) = ([], [])
    }

    /// Whether there are copies that have not been looked for yet.
    var hasUnresolved: Bool { !unresolved.isEmpty || !unresolvedClears.isEmpty }

    /// Takes up to `most` keys, and all clears, whose copies are to be removed.
    mutating func takeUnresolved(_ most: Int) -> (keys: [Key], clears: [Key?: Notice]) {
        let keys = Array(unresolved.inOrder { $0.hash }.prefix(most))
        unresolved.subtract(keys)
        defer { unresolvedClears = [] }
        return (keys, unresolvedClears.isEmpty ? [:] : cleared.filter { unresolvedClears.contains($0.key) })
    }

    /// Forgets a clear whose copies are gone, unless there was another one meanwhile.
    mutating func forget(_ clear: Notice, of tag: Key?) {
        guard cleared[tag]?.number == clear.number else { return }
        cleared[tag] = nil
        if resolvedClears.count >= Self.mostResolved {
            forgottenClear = resolvedClears.values.reduce(forgottenClear) { max($0, $1.number) }
            resolvedClears = [:]
        }
        resolvedClears[tag] = clear.joined(with: resolvedClears[tag])
    }
}
