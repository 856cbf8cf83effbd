import LarderFiles

/// The mark that a local copy bears: the version under which the server knows it, the epoch of the server's memory
/// when it was stored, and the generations that it belongs to.
///
/// It is a field of the entry's record, `sv`, which the store keeps verbatim without knowing it, as it keeps every
/// field of a later version.
struct SharedStamp: Hashable, Sendable {
    let version: SharedVersion
    /// "": the server had not been reached.
    var epoch: String
    /// That of the namespace and those of the tags, in their order; "": not known.
    var generations: [String]

    private static let name = Array(",\"sv\":\"".utf8)

    /// The field: `,"sv":"version epoch generation,generation"`.
    var field: [UInt8] {
        let text = "\(version) \(Self.plain(epoch)) \(generations.map(Self.plain).joined(separator: ","))\""
        return Self.name + Array(text.utf8)
    }

    init(version: SharedVersion, epoch: String, generations: [String]) {
        self.version = version
        self.epoch = epoch
        self.generations = generations
    }

    /// Finds the field among those that the store does not know; nil without one.
    init?(in fields: [UInt8]) {
        guard fields.count > Self.name.count + SharedVersion.length else { return nil }
        let last = fields.count - Self.name.count
        guard let start = (0...last).first(where: { fields[$0...].starts(with: Self.name) }) else { return nil }
        let text = fields[(start + Self.name.count)...].prefix { $0 != UInt8(ascii: "\"") }
        let parts = String(decoding: text, as: UTF8.self).split(separator: " ", omittingEmptySubsequences: false)
        guard parts.count == 3, let version = SharedVersion(parts[0]) else { return nil }
        self.init(
            version: version, epoch: String(parts[1]),
            generations: parts[2].split(separator: ",", omittingEmptySubsequences: false).map(String.init))
    }

    /// Epochs and generations come from a server: only letters, digits and a few signs are kept.
    private static func plain(_ text: String) -> String {
        let known = text.utf8.prefix(100).filter { 45...58 ~= $0 || 65...90 ~= $0 || 97...122 ~= $0 }
        return String(decoding: known, as: UTF8.self)
    }

    /// Whether an epoch or a generation can be written without loss.
    static func isPlain(_ text: String) -> Bool { plain(text) == text }
}

/// The consequence of the server's answer for a local copy.
enum SharedVerdict: Equatable {
    /// The copy may be returned.
    case valid
    /// The copy is outdated or removed; nil version: or nothing is known, which is no better.
    case invalid(SharedVersion?)
    /// The server's value replaces it.
    case replaced
}

/// A local copy, as far as its validity is concerned.
struct SharedCopy {
    /// Nil: stored by a change that is not shared.
    var stamp: SharedStamp?
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
    /// nothing, is valid only if nothing can have been forgotten: the epoch is the same, the generations are known and
    /// current, and the copy is younger than the oldest tombstone.
    func verdict(on reading: SharedReading, epoch: String, memory: Int64) -> SharedVerdict {
        let epoch = reading.epoch ?? epoch
        switch reading.finding {
        case .unchanged(let version, _):
            return version == stamp?.version ? .valid : .invalid(nil)
        case .value(_, let version, _, _):
            return isNewer(than: version, reading, epoch, memory) ? .valid : .replaced
        case .removed(let version):
            // Its own tombstone: the value was too large for the server.
            let isOwn = version == stamp?.version && isCurrent(reading)
            return isOwn || isNewer(than: version, reading, epoch, memory) ? .valid : .invalid(version)
        case .cleared(let version):
            return isNewer(than: version, reading, epoch, memory) ? .valid : .invalid(nil)
        case .missing:
            if isPending { return .valid }
            guard !isNoticed else { return .invalid(nil) }
            guard let stamp else { return .valid }
            return isTraceable(stamp, reading, epoch, memory) ? .valid : .invalid(nil)
        }
    }

    private func isNewer(
        than version: SharedVersion, _ reading: SharedReading, _ epoch: String, _ memory: Int64
    ) -> Bool {
        guard let stamp, stamp.version > version else { return false }
        return isPending || isTraceable(stamp, reading, epoch, memory)
    }

    private func isTraceable(
        _ stamp: SharedStamp, _ reading: SharedReading, _ epoch: String, _ memory: Int64
    ) -> Bool {
        !stamp.epoch.isEmpty && stamp.epoch == epoch && age < memory && isCurrent(reading)
    }

    private func isCurrent(_ reading: SharedReading) -> Bool {
        guard let stamp, !stamp.generations.contains("") else { return false }
        return stamp.generations == reading.generations
    }
}
