import LarderFiles

/// The mark that a local copy bears: the version under which the server knows it, and the state of the server when the
/// version was given.
///
/// It is a field of the entry's record, `sv`, which the store keeps verbatim without knowing it, as it keeps every
/// field of a later version.
struct RemoteStamp: Hashable, Sendable {
    enum Origin: Hashable, Sendable {
        /// The server had never been reached: the version is on the local clock, and gets another one on its way.
        case untimed
        /// The server could not be reached, or took no changes: it does not know the value before that is sent.
        case offline
        /// Connected, with this epoch: its digest.
        case epoch(UInt64)
    }

    let version: RemoteVersion
    let origin: Origin

    private static let name = Array(",\"sv\":\"".utf8)

    init(version: RemoteVersion, origin: Origin) {
        self.version = version
        self.origin = origin
    }

    /// The field, `,"sv":"…"`: the version, and the digest as 16 digits, `-` for offline, or nothing.
    var field: [UInt8] {
        let end =
            switch origin {
            case .untimed: ""
            case .offline: "-"
            case .epoch(let digest): FixedHex.padded(digest, 16)
            }
        return Self.name + Array("\(version)\(end)\"".utf8)
    }

    /// Finds the field among those that the store does not know; nil without one.
    init?(in fields: [UInt8]) {
        guard fields.count > Self.name.count + RemoteVersion.length else { return nil }
        let last = fields.count - Self.name.count
        guard let start = (0...last).first(where: { fields[$0...].starts(with: Self.name) }) else { return nil }
        let text = String(
            decoding: fields[(start + Self.name.count)...].prefix { $0 != UInt8(ascii: "\"") }, as: UTF8.self)
        guard let version = RemoteVersion(text.prefix(RemoteVersion.length)) else { return nil }
        let end = text.dropFirst(RemoteVersion.length)
        self.init(
            version: version, origin: end == "-" ? .offline : UInt64(end, radix: 16).map { .epoch($0) } ?? .untimed)
    }

    /// Whether the version is on the server's clock.
    var isTimed: Bool { origin != .untimed }

    /// The version, if it can be compared with those of other machines.
    var timedVersion: RemoteVersion? { isTimed ? version : nil }

    /// Stands for an epoch, which is as long as a server likes.
    static func digest(_ epoch: String) -> UInt64 { Array(epoch.utf8).withUnsafeBytes { XXH64.hash($0) } }
}

/// The consequence of the server's answer for a local copy.
enum RemoteVerdict: Equatable {
    /// The copy may be returned.
    case valid
    /// The copy may be returned, and has to be sent: the server could not take it when it was stored.
    case unsent
    /// The copy is outdated or removed; or nothing is known, which is no better.
    case invalid
    /// The server's value replaces it.
    case replaced
}

/// A local copy, as far as its validity is concerned.
struct RemoteCopy {
    /// Nil: stored by a change of which the server is not told.
    var stamp: RemoteStamp?
    /// The time since it was stored, in milliseconds.
    var age: Int64
    /// Whether a notice has come that somebody else changed the key.
    var isNoticed: Bool
    /// Whether the change waits to be sent.
    var isPending: Bool

    /// Compares the copy with what the server has. `epoch` is that of the connection, and `memory` the time for which
    /// it remembers removals, in milliseconds.
    ///
    /// The same version is the same value. A copy that is newer than what the server has, or of which the server has
    /// nothing, has not arrived there yet; or it is valid only if nothing can have been forgotten: the epoch is the
    /// same, nothing was cleared, and the copy is younger than the oldest tombstone. Where the server has an older
    /// value, the newer copy is sent: the process may have been killed before that, whatever its mark says.
    func verdict(on reading: RemoteReading, epoch: UInt64?, memory: Int64) -> RemoteVerdict {
        let epoch = reading.epoch.map { RemoteStamp.digest($0) } ?? epoch
        let isRemembered = age < memory && epoch != nil && stamp?.origin == epoch.map { .epoch($0) }
        let isCleared = reading.scopes == .cleared
        func ifNewer(than version: RemoteVersion) -> RemoteVerdict? {
            guard let own = stamp?.version, own > version else { return nil }
            if isPending { return .valid }
            if isCleared { return nil }
            if canBeSent(memory: memory), stamp?.origin == .offline || !isNoticed { return .unsent }
            return isRemembered ? .valid : nil
        }
        switch reading.finding {
        case .unchanged(let version, _): return version == stamp?.version ? .valid : .invalid
        case .value(_, let version, _): return ifNewer(than: version) ?? .replaced
        case .removed(let version) where version == stamp?.version:
            // Its own tombstone: the value was too large for the server.
            let isCurrent = reading.scopes == .current || isRemembered && reading.scopes == .unknown
            return isCurrent ? .valid : .invalid
        case .removed(let version), .cleared(let version): return ifNewer(than: version) ?? .invalid
        case .missing:
            if isPending { return .valid }
            if isNoticed { return .invalid }
            if stamp == nil || isRemembered && !isCleared { return .valid }
            return stamp?.origin == .offline && canBeSent(memory: memory) && !isCleared ? .unsent : .invalid
        }
    }

    /// Whether it may be sent. An older copy may be the one of which the server has forgotten a removal.
    private func canBeSent(memory: Int64) -> Bool { age < memory && stamp?.timedVersion != nil }
}
