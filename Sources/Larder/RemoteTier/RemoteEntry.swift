public import LarderFoundation

/// The name of an entry on all machines.
public struct RemoteKey: Hashable, Sendable {
    /// The namespace; "": none.
    public var namespace: String
    /// The key, compared by its UTF-8 bytes.
    public var key: String

    /// Creates a name.
    public init(namespace: String = "", key: String) {
        self.namespace = namespace
        self.key = key
    }

    /// Compares the UTF-8 bytes, as everywhere.
    public static func == (left: RemoteKey, right: RemoteKey) -> Bool {
        left.key.hasSameBytes(as: right.key) && left.namespace.hasSameBytes(as: right.namespace)
    }

    /// Hashes the UTF-8 bytes.
    public func hash(into hasher: inout Hasher) {
        for byte in key.utf8 { hasher.combine(byte) }
        hasher.combine(namespace.utf8.count)
    }
}

/// A namespace, or a tag in it.
public struct RemoteScope: Hashable, Sendable {
    /// The namespace; "": none.
    public var namespace: String
    /// The tag; nil: the whole namespace.
    public var tag: String?

    /// Creates a scope.
    public init(namespace: String = "", tag: String? = nil) {
        self.namespace = namespace
        self.tag = tag
    }

    /// Compares the UTF-8 bytes, as everywhere.
    public static func == (left: RemoteScope, right: RemoteScope) -> Bool {
        guard left.namespace.hasSameBytes(as: right.namespace) else { return false }
        guard let tag = left.tag, let other = right.tag else { return left.tag == nil && right.tag == nil }
        return tag.hasSameBytes(as: other)
    }

    /// Hashes the UTF-8 bytes.
    public func hash(into hasher: inout Hasher) {
        for byte in (tag ?? namespace).utf8 { hasher.combine(byte) }
    }
}

/// The content of an entry file, as it travels: Larder alone knows what the bytes mean.
public struct RemoteEntry: Hashable, Sendable {
    /// The value's bytes; empty for the knowledge that there is no value.
    public var payload: Data
    /// The entry's record: its key, metadata and tags.
    public var record: Data
    /// XXH64 of payload and record: of the record, seeded with that of the payload.
    public var checksum: UInt64

    /// Creates an entry.
    public init(payload: Data, record: Data, checksum: UInt64) {
        self.payload = payload
        self.record = record
        self.checksum = checksum
    }

    /// Whether the bytes are those that were written.
    var isIntact: Bool { checksum == Self.checksum(of: payload, record) }

    static func checksum(of payload: Data, _ record: Data) -> UInt64 {
        let seed = payload.withUnsafeBytes { XXH64.hash($0) }
        return record.withUnsafeBytes { XXH64.hash($0, seed: seed) }
    }
}

/// The life of an entry in durations, so that no two clocks need to agree. Milliseconds.
public struct RemoteLife: Hashable, Sendable {
    /// The time until the expiry, zero or less after it; nil: never expires.
    public var remaining: Int64?
    /// For how long the entry is kept beyond its expiry, at most ``longestStale``.
    public var keptStale: Int64
    /// The time since the value was stored.
    public var age: Int64

    /// Ten years: the longest stale window that a server is told of.
    public static let longestStale: Int64 = 315_360_000_000

    /// Creates a life.
    public init(remaining: Int64?, keptStale: Int64, age: Int64) {
        self.remaining = remaining
        self.keptStale = keptStale
        self.age = age
    }
}

/// A question for one key.
public struct RemoteRead: Hashable, Sendable {
    /// The key.
    public var key: RemoteKey
    /// The version of the caller's own copy, which need not be sent again; nil: none.
    public var known: RemoteVersion?
    /// The tags of that copy.
    public var tags: [String]
    /// The longest payload that the caller takes. Bytes.
    public var sizeLimit: Int

    /// Creates a question.
    public init(key: RemoteKey, known: RemoteVersion? = nil, tags: [String] = [], sizeLimit: Int) {
        self.key = key
        self.known = known
        self.tags = tags
        self.sizeLimit = sizeLimit
    }
}

/// The answer of the server.
public struct RemoteReading: Hashable, Sendable {
    /// The kinds of answers about a key.
    public enum Finding: Hashable, Sendable {
        /// Nothing. The server may have evicted it, so this proves neither that it was removed, nor that it is valid.
        case missing
        /// A tombstone, of a removal or of a value that is too large for the server; or nothing any more, where a value
        /// of this version, or of a lower one, has expired.
        case removed(RemoteVersion)
        /// A value whose generations have been replaced: it does not count any more.
        case cleared(RemoteVersion)
        /// The version that the caller already has.
        case unchanged(RemoteVersion, RemoteLife)
        /// A value.
        case value(RemoteEntry, RemoteVersion, RemoteLife)
    }

    /// Whether the namespace and the tags of the caller's copy have been cleared since its version.
    public enum Scopes: Hashable, Sendable {
        /// None has been: the server has known each of them for longer than the copy exists.
        case current
        /// None has been, as far as the server knows: one is missing or younger than the copy. Also the answer to a
        /// caller without a copy.
        case unknown
        /// One has been; or the version is ahead of the server's clock, and so from a time that does not count.
        case cleared
    }

    /// The answer about the key.
    public var finding: Finding
    /// The answer about its namespace and tags.
    public var scopes: Scopes
    /// The server's epoch at the time of the answer, where its memory counts: the caller has a copy, and the server has
    /// no value for the key, or an older one. Nil: that of the connection.
    public var epoch: String?

    /// Creates an answer.
    public init(_ finding: Finding, scopes: Scopes = .unknown, epoch: String? = nil) {
        self.finding = finding
        self.scopes = scopes
        self.epoch = epoch
    }
}

/// An entry on its way to the server.
public struct RemoteWrite: Hashable, Sendable {
    /// The key.
    public var key: RemoteKey
    /// The version of the change.
    public var version: RemoteVersion
    /// The entry. The payload is empty in a renewal.
    public var entry: RemoteEntry
    /// Its life.
    public var life: RemoteLife
    /// Its tags.
    public var tags: [String]
    /// Whether newer changes may have been missed: the change predates the connection or a notification of the key. The
    /// server then takes it only if it can have forgotten nothing since: it has something for the key, or has lost
    /// nothing since the change, by expiry, eviction or a restart; and each generation is older than the change.
    public var isLate: Bool
    /// In a renewal, the version of the writer's copy; nil: not known. The server refuses to renew another value.
    public var base: RemoteVersion?

    /// Creates a write.
    public init(
        key: RemoteKey, version: RemoteVersion, entry: RemoteEntry, life: RemoteLife, tags: [String] = [],
        isLate: Bool = false, base: RemoteVersion? = nil
    ) {
        self.key = key
        self.version = version
        self.entry = entry
        self.life = life
        self.tags = tags
        self.isLate = isLate
        self.base = base
    }
}

/// The fate of a change on the server.
public enum RemoteOutcome: Hashable, Sendable {
    /// The change is in force.
    case done
    /// The server has another change that is newer, with this version.
    case superseded(RemoteVersion)
    /// The namespace or a tag was cleared after the change, or may have been.
    case cleared
    /// There is nothing to renew or to expire.
    case missing
    /// The version is ahead of the server's clock, which shows this time, in milliseconds since 1970.
    case ahead(time: Int64)
}
