#if Redis
    import Foundation
    import Larder

    /// The keys on the server. All begin with the user's prefix and the version of the format.
    struct RedisNames: Sendable {
        private let prefix: String

        init(_ prefix: String) {
            self.prefix = "\(prefix):larder1:"
        }

        private var entries: String { prefix + "k:" }
        private var leases: String { prefix + "l:" }
        /// The channel of leases that have ended.
        var ends: String { prefix + "d" }
        var epoch: String { prefix + "e" }
        /// The versions of values that end.
        var ended: String { prefix + "h" }
        /// The beginning of no key.
        var nothing: String { prefix + "x" }
        /// The channel of clears.
        var clears: String { prefix + "c" }

        private func name(_ key: RemoteKey) -> String { "\(key.namespace.utf8.count):\(key.namespace)\(key.key)" }

        func entry(_ key: RemoteKey) -> String { entries + name(key) }
        func lease(_ key: RemoteKey) -> String { leases + name(key) }

        func generation(_ scope: RemoteScope) -> String {
            let key = RemoteKey(namespace: scope.namespace, key: scope.tag.map { "t\($0)" } ?? "n")
            return "\(prefix)g:\(name(key))"
        }

        /// The channel of changes.
        var changes: String { prefix + "n" }

        /// The message of a change: the version, which ends with the node, and the key.
        func message(_ key: RemoteKey, _ version: RemoteVersion) -> String { version.description + name(key) }

        func change(_ message: Data) -> (node: String, RemoteNotice)? {
            guard let version = Self.version(message), let key = key(message.dropFirst(RemoteVersion.length)) else {
                return nil
            }
            return (version.node, .changed(key, version: version))
        }

        private static func version(_ message: Data) -> RemoteVersion? {
            RemoteVersion(String(decoding: message.prefix(RemoteVersion.length), as: UTF8.self))
        }

        /// The message of a lease that has ended.
        func end(_ key: RemoteKey) -> String { name(key) }

        func key(_ bytes: Data) -> RemoteKey? {
            guard let colon = bytes.prefix(8).firstIndex(of: UInt8(ascii: ":")),
                let length = Int(String(decoding: bytes[bytes.startIndex..<colon], as: UTF8.self)), length >= 0
            else { return nil }
            let rest = bytes[(colon + 1)...]
            guard length <= rest.count, let namespace = String(validating: rest.prefix(length), as: UTF8.self),
                let key = String(validating: rest.dropFirst(length), as: UTF8.self)
            else { return nil }
            return RemoteKey(namespace: namespace, key: key)
        }

        /// The message of a clear: the version, `1` for an expiry, and the scope.
        func message(_ scope: RemoteScope, _ version: RemoteVersion, isExpiry: Bool) -> String {
            let key = RemoteKey(namespace: scope.namespace, key: scope.tag.map { "t\($0)" } ?? "n")
            return "\(version)\(isExpiry ? 1 : 0)\(name(key))"
        }

        func clear(_ message: Data) -> (node: String, RemoteNotice)? {
            let length = RemoteVersion.length
            guard let version = Self.version(message), let key = key(message.dropFirst(length + 1)),
                let kind = key.key.utf8.first
            else { return nil }
            // Not its first character, which may have joined with the next one.
            let tag = kind == UInt8(ascii: "t") ? String(key.key.unicodeScalars.dropFirst()) : nil
            let scope = RemoteScope(namespace: key.namespace, tag: tag)
            let isExpiry = message.dropFirst(length).first == UInt8(ascii: "1")
            return (version.node, .cleared(scope, version: version, isExpiry: isExpiry))
        }
    }

    extension String {
        /// `init(validating:as:)` of the standard library needs macOS 15.
        fileprivate init?(validating bytes: Data, as encoding: UTF8.Type) {
            // Not `init(bytes:encoding:)`, which leaves out a byte order mark.
            self.init(decoding: bytes, as: UTF8.self)
            guard utf8.elementsEqual(bytes) else { return nil }
        }
    }
#endif
