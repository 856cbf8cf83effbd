import LarderFiles

/// The fields of one line, before they are known to make sense together.
struct Fields {
    var version: UInt64?
    var generation: UInt64?
    var operation: String?
    var key: String?
    var namespace: String?
    var number: UInt64?
    var file: UInt64?
    var change: UInt64?
    var stored: Int64?
    var expires: Int64?
    var ttl: Int64?
    var used: Int64?
    var size: Int64?
    var checksum: UInt64?
    var metadata: [String: String]?
    var tags: [String]?
    var keptStale: Int64?
    var absent: UInt64?
    var mustRevalidate: UInt64?
    var unknown: [UInt8] = []

    /// Bytes; more is damage. It keeps sums of sizes from overflowing.
    static let largestSize = 1 << 40

    /// The record that the fields make; nil when one is missing or out of bounds.
    var record: Record? {
        if let version { return header(version) }
        guard let operation else { return entry.map(Record.set) }
        switch Record.Operation(rawValue: operation) {
        case .remove:
            guard let name, let number else { return nil }
            return .remove(key: name, number: number)
        case .life:
            guard let name, let file, let number else { return nil }
            return .life(key: name, file: file, change: number, life, update)
        case .used:
            guard let name, let file, let number, let used else { return nil }
            return .used(
                key: name, file: file, change: number, at: Timestamp(milliseconds: used), expires: life.expires)
        case .clear:
            guard let number, let scope else { return nil }
            // What says more than this version knows may mean less than it seems to.
            return unknown.isEmpty ? .clear(scope, number: number) : .unknown
        case .obsolete:
            return file.flatMap { $0 > 0 ? .obsolete(file: $0, of: name) : nil }
        case .closed:
            return number.map { .closed(number: $0) }
        case nil:
            return .unknown
        }
    }

    /// The header of a newer version may say more; its version is all that matters then.
    private func header(_ version: UInt64) -> Record? {
        if version > Record.version { return .header(version: version, generation: 0, last: 0) }
        guard let generation, let number else { return nil }
        return .header(version: version, generation: generation, last: number)
    }

    private var space: Namespace { namespace.map { Namespace($0) } ?? .none }

    private var name: Key? {
        key.map { Key($0, in: space) }
    }

    /// What a clear is of. One of no namespace would be one of everything.
    private var scope: ClearScope? {
        if namespace == "" { return nil }
        if let tags { return tags.count == 1 ? .tag(Key(tags[0], in: space)) : nil }
        return namespace.map { .namespace(Namespace($0)) } ?? .everything
    }

    private var update: Attachments.Update? {
        if metadata == nil && keptStale == nil { return nil }
        return Attachments.Update(metadata: metadata ?? [:], keptStale: max(0, keptStale ?? 0))
    }

    private var traits: Attachments.Traits {
        let space = space
        return Attachments.Traits(
            namespace: space, tags: (tags ?? []).map { Key($0, in: space) }, keptStale: max(0, keptStale ?? 0),
            isAbsent: absent == 1, mustRevalidate: mustRevalidate == 1)
    }

    private var life: Life { Self.life(expires: expires, ttl: ttl) }

    static func life(expires: Int64?, ttl: Int64?) -> Life {
        Life(expires: Timestamp(milliseconds: expires ?? Life.unlimited), ttl: ttl ?? Life.unlimited)
    }

    private var attachments: Attachments? {
        let isBare = namespace == nil && tags == nil && keptStale == nil && absent == nil && mustRevalidate == nil
        if isBare, metadata == nil, unknown.isEmpty { return nil }
        return Attachments(isBare ? .init() : traits, metadata: metadata ?? [:], unknown: unknown)
    }

    private var entry: IndexEntry? {
        Self.entry(
            key: key, number: number, change: change, stored: stored, life: life, used: used, size: size,
            checksum: checksum, attachments: attachments)
    }

    /// The entry that the fields of a set make; nil when one is missing or out of bounds.
    static func entry(
        key: String?, number: UInt64?, change: UInt64?, stored: Int64?, life: Life, used: Int64?, size: Int64?,
        checksum: UInt64?, attachments: @autoclosure () -> Attachments?
    ) -> IndexEntry? {
        guard let key, let number, number > 0, let stored, let size, let checksum, size >= 0, size <= Int64(largestSize)
        else { return nil }
        return IndexEntry(
            keyText: key, file: number, change: change ?? number, stored: Timestamp(milliseconds: stored),
            life: life,
            used: Timestamp(milliseconds: used ?? stored), size: Int(size), checksum: checksum,
            attachments: attachments())
    }
}
