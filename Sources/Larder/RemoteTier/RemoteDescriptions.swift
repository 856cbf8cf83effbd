extension RemoteKey: CustomStringConvertible {
    /// The key, and its namespace if it has one.
    public var description: String {
        let key = Wording.quoted(key)
        return namespace.isEmpty ? key : "\(key) in namespace \(Wording.quoted(namespace))"
    }
}

extension RemoteScope: CustomStringConvertible {
    /// The namespace, and the tag if there is one.
    public var description: String {
        let part = namespace.isEmpty ? "the part without a namespace" : "namespace \(Wording.quoted(namespace))"
        return tag.map { "tag \(Wording.quoted($0)) in \(part)" } ?? part
    }
}

extension RemoteEntry: CustomStringConvertible {
    /// The number of payload bytes.
    public var description: String { Wording.number(payload.count, "byte", "bytes") }
}

extension RemoteLife: CustomStringConvertible {
    /// The remaining life and the stale window.
    public var description: String {
        let life = remaining.map { "\(Wording.duration(milliseconds: $0)) left" } ?? "never expires"
        return keptStale == 0 ? life : "\(life), then kept \(Wording.duration(milliseconds: keptStale))"
    }
}

extension RemoteRead: CustomStringConvertible {
    /// The key, and the version of the caller's copy.
    public var description: String { known.map { "\(key), known as \($0)" } ?? "\(key)" }
}

extension RemoteReading.Finding: CustomStringConvertible {
    /// The kind of the answer, with its version and its life.
    public var description: String {
        switch self {
        case .missing: "missing"
        case .removed(let version): "removed by \(version)"
        case .cleared(let version): "\(version) was cleared"
        case .unchanged(let version, let life): "\(version) is unchanged, \(life)"
        case .value(let entry, let version, let life): "\(version) with \(entry), \(life)"
        }
    }
}

extension RemoteReading.Scopes: CustomStringConvertible {
    /// The answer in a few words.
    public var description: String {
        switch self {
        case .current: "not cleared since"
        case .unknown: "not known to be cleared"
        case .cleared: "cleared since"
        }
    }
}

extension RemoteReading: CustomStringConvertible {
    /// The answer about the key.
    public var description: String { "\(finding)" }
}

extension RemoteWrite: CustomStringConvertible {
    /// The key, the version, the entry and its life.
    public var description: String { "\(key) as \(version) with \(entry), \(life)" }
}

extension RemoteOutcome: CustomStringConvertible {
    /// The fate of the change, with the version or the time.
    public var description: String {
        switch self {
        case .done: "done"
        case .superseded(let version): "superseded by \(version)"
        case .cleared: "cleared"
        case .missing: "missing"
        case .ahead(let time): "ahead of the server's time \(time)"
        }
    }
}

extension RemoteTierState: CustomStringConvertible {
    /// The state, with the epoch or the reason.
    public var description: String {
        switch self {
        case .connected(let epoch): "connected, epoch \(epoch)"
        case .slow(let epoch): "slow, epoch \(epoch)"
        case .disconnected(let reason): "disconnected: \(reason)"
        }
    }
}

extension RemoteNotice: CustomStringConvertible {
    /// The kind of the notice, and what it concerns.
    public var description: String {
        switch self {
        case .connected(let epoch, _): "connected, epoch \(epoch)"
        case .disconnected(let reason): "disconnected: \(reason)"
        case .changed(let key, _): "changed \(key)"
        case .cleared(let scope, _, let isExpiry): "\(isExpiry ? "expired" : "cleared") \(scope)"
        case .changedAll: "changed all"
        case .leaseEnded(let key): "the lease of \(key) has ended"
        }
    }
}
