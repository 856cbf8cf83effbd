/// How a ``Cache`` uses its remote tier.
public struct RemoteTierPolicy: Hashable, Sendable {
    /// The cache's name on the server: its keys begin with this name and the disk namespace. Caches that share a tier
    /// need different names, unless their namespaces differ, or they hold the same values. Default: "".
    public var name = ""
    /// The longest time that a call waits for the remote tier, be it for an answer, for its change to be sent, or for
    /// both. A read that takes longer counts as a miss; a change goes on in the background. Zero: reads ask nothing,
    /// and changes wait for nothing. A call that stores more values than half of ``queueLimit``, or finds the queue
    /// full, also waits until some are sent, as long as the server takes any. Default: 100 ms.
    public var timeout: Duration = .milliseconds(100)
    /// The most changes that wait for a server that cannot be reached, the latest of each key. When there are more, all
    /// of them are dropped, and the namespace is cleared on the server instead: the machines fetch again, and none
    /// returns an outdated value. At least 1: a smaller number counts as 1. Default: 10,000.
    public var queueLimit = 10_000
    /// The longest payload that is sent. A larger one stays on its machine, and the others lose theirs. Bytes. Default:
    /// 1 MiB.
    public var sizeLimit = 1 << 20
    /// The lease on a fetch: other machines wait this long for its value before fetching themselves. Fetches for
    /// several keys at once take none. Nil or zero: no machine waits. Default: nil.
    public var fetchLease: Duration?

    /// For how long a server remembers a removal at least: a day.
    public static let removalMemory: Duration = .seconds(86_400)
    /// The age at which a waiting change is dropped, half of ``removalMemory``: the server could have forgotten a newer
    /// removal.
    public static let longestWait: Duration = .seconds(43_200)

    /// Creates a policy; every setting that is left out has its default.
    public init(
        name: String = "", timeout: Duration = .milliseconds(100), queueLimit: Int = 10_000, sizeLimit: Int = 1 << 20,
        fetchLease: Duration? = nil
    ) {
        self.name = name
        self.timeout = timeout
        self.queueLimit = queueLimit
        self.sizeLimit = sizeLimit
        self.fetchLease = fetchLease
    }
}

extension RemoteTierPolicy: CustomStringConvertible {
    /// The settings that differ from the defaults.
    public var description: String {
        let normal = RemoteTierPolicy()
        var parts: [String] = []
        if !name.isEmpty { parts.append("name: \(Wording.quoted(name))") }
        if timeout != normal.timeout { parts.append("timeout: \(Wording.duration(timeout))") }
        if queueLimit != normal.queueLimit { parts.append("queueLimit: \(queueLimit)") }
        if sizeLimit != normal.sizeLimit { parts.append("sizeLimit: \(sizeLimit)") }
        if let fetchLease { parts.append("fetchLease: \(Wording.duration(fetchLease))") }
        return parts.isEmpty ? "defaults" : parts.joined(separator: ", ")
    }
}
