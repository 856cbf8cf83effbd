import LarderFiles

/// The part of a remote tier in a fetch: the version of its results, and its right to fetch, if it has one.
final class RemoteFetch: Sendable {
    struct Part {
        let stamp: RemoteStamp
        let number: UInt64
    }

    private let link: RemoteLink
    private let parts: [Key: Part]
    private let lease: RemoteLease?

    init(_ keys: [Key], _ link: RemoteLink, _ lease: RemoteLease?) {
        self.link = link
        self.lease = lease
        let now = link.now
        parts = link.state.withLock { state in
            let stamp = state.newStamp(at: now)
            var parts: [Key: Part] = [:]
            for key in keys { parts[key] = Part(stamp: stamp, number: state.trust.begin(key)) }
            return parts
        }
    }

    deinit {
        let keys = parts.keys
        link.state.withLock { state in
            for key in keys { state.trust.end(key) }
        }
    }

    func part(_ key: Key) -> Part? { parts[key] }
}
