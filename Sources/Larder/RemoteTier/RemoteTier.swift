/// A store that several machines share, below the memory and the disk of each: a Valkey or Redis server, or whatever
/// else can compare and set.
///
/// A ``Cache`` asks it after a disk miss, and reports every change made through the cache to it. `RedisTier` of the
/// module LarderRedis, behind the trait `Redis`, is one; <doc:SeveralMachines> shows an adapter for several servers.
/// The cache brings everything else: timeouts, a circuit breaker, the queue of changes that wait for the server, and
/// the decision which local copies may still be returned. A tier that fails makes the cache slower, never wrong.
///
/// Rules for an implementation:
///
/// - Every change carries a ``RemoteVersion``. In one step, the server compares it with the version that it has for the
///   key, a removal's included, and refuses a change that is not newer. Versions are compared as strings.
/// - A removal leaves a tombstone for ``RemoteTierPolicy/removalMemory``, longer than any change waits in a queue.
/// - So does the expiry of a value that lived for less than that: a question about a copy with a lower version is
///   answered with ``RemoteReading/Finding/removed(_:)`` and a version that is not lower than the expired one's, and a
///   late write with a lower version is refused as `cleared`. One version may stand for many keys: the highest of
///   theirs. The expired version itself is `missing`, as a removal that followed it may have been evicted.
/// - Each namespace and each tag has a random *generation*, which ``clear(_:version:isExpiry:)`` replaces. A value
///   keeps the generations under which it was written, and counts only while they are the current ones. A generation
///   that is missing equals none. With each generation the server remembers the version of the clear that began it, or
///   one from before which it has forgotten nothing; so it can answer whether a copy was cleared
///   (``RemoteReading/scopes``).
/// - A value ends on the server's clock: at its expiry, plus the time for which it is kept stale.
/// - Observers hear of a change only once the server has it.
///
/// Its methods may suspend, but they never block a thread of Swift's executor.
public protocol RemoteTier: Sendable {
    /// Whether the server can be asked now.
    var state: RemoteTierState { get }

    /// Returns what the server has for a key. O(size).
    ///
    /// A version that the caller already has is confirmed without its payload.
    ///
    /// - Throws: Any error; it counts as a miss and, except `.malformed`, against the circuit breaker.
    func read(_ request: RemoteRead) async throws -> RemoteReading

    /// Stores an entry, unless the server has a newer version of the key, or one of the entry's generations has
    /// been replaced since. O(size).
    ///
    /// - Throws: Any error; the write is tried again later. `RemoteTierError.full` turns it into a removal, so that
    ///   no machine keeps the value that it replaces.
    func write(_ write: RemoteWrite) async throws -> RemoteOutcome

    /// Gives an entry another life and record, and leaves its payload as it is.
    ///
    /// The value that it renews has the version ``RemoteWrite/base``, or had it before it was renewed.
    ///
    /// - Returns: `missing` when the server has no value; the entry is then written as a whole. `superseded` with the
    ///   version of a value that the writer has not seen, even if that is lower than the change's.
    /// - Throws: As ``write(_:)``.
    func renew(_ write: RemoteWrite) async throws -> RemoteOutcome

    /// Ends the life of an entry now. It stays for its stale window; without one it is removed.
    ///
    /// - Throws: Any error; the change is tried again later.
    func expire(_ key: RemoteKey, version: RemoteVersion) async throws -> RemoteOutcome

    /// Removes an entry, and leaves a tombstone.
    ///
    /// - Throws: Any error; the removal is tried again later.
    func remove(_ key: RemoteKey, version: RemoteVersion) async throws -> RemoteOutcome

    /// Replaces the generation of a namespace or a tag, so that no earlier value of it counts any more. O(1).
    ///
    /// - Parameters:
    ///   - scope: The namespace, or a tag in it.
    ///   - version: The version of the change.
    ///   - isExpiry: Passed on to the observers.
    /// - Throws: Any error; the clear is tried again later.
    func clear(_ scope: RemoteScope, version: RemoteVersion, isExpiry: Bool) async throws

    /// Takes the right to fetch a key on behalf of all machines, for at most `duration`.
    ///
    /// - Parameters:
    ///   - key: The key.
    ///   - holder: A name that no other fetch has, in this process or another: 16 random digits.
    ///   - duration: Afterwards another holder may take it.
    /// - Returns: False while another holder has it.
    /// - Throws: Any error; the caller then fetches without waiting for others.
    func lease(_ key: RemoteKey, holder: String, for duration: Duration) async throws -> Bool

    /// Gives the right back. Does nothing when another holder has it by now.
    ///
    /// - Throws: Any error, which is ignored: the right ends by itself.
    func endLease(_ key: RemoteKey, holder: String) async throws

    /// Calls `observer` with each notice from now on, in order, until the returned function is called; at first with
    /// `connected` if the server can be reached, and with `disconnected` once it is known that it cannot.
    ///
    /// - Parameters:
    ///   - node: The last part of the versions of the observer's own changes, of which it needs no notice.
    ///   - observer: Returns soon and blocks for nothing.
    /// - Returns: A function that ends the notices.
    func observe(
        as node: String, _ observer: @escaping @Sendable (RemoteNotice) -> Void
    ) -> @Sendable () -> Void
}

/// The connection of a remote tier.
public enum RemoteTierState: Hashable, Sendable {
    /// The server answers. `epoch` identifies its memory: it is another one after the server has lost data or begun
    /// anew, so that a key that is missing proves nothing about earlier times.
    case connected(epoch: String)
    /// The server answers, but later than the timeout of the policy; as ``Cache/remoteTierState`` has it.
    case slow(epoch: String)
    /// The server cannot be reached, for this reason.
    case disconnected(reason: String)
}

/// Something that happened on the server.
public enum RemoteNotice: Hashable, Sendable {
    /// Notices arrive from now on; earlier ones may have been lost. `time` is the server's, in milliseconds since 1970.
    case connected(epoch: String, time: Int64)
    /// Notices are lost from now on; or a first attempt to connect has failed. May come again.
    case disconnected(reason: String)
    /// Another machine has changed the key, by a change of this version; nil: not known. There are no values in
    /// notices.
    case changed(RemoteKey, version: RemoteVersion?)
    /// Another machine has cleared or expired a namespace or a tag, by a change of this version; nil: not known.
    case cleared(RemoteScope, version: RemoteVersion?, isExpiry: Bool)
    /// Everything may have changed.
    case changedAll
    /// A lease has ended.
    case leaseEnded(RemoteKey)
}

/// A failure of a remote tier that the cache treats specially. All other errors mean that it cannot be reached.
public struct RemoteTierError: Error, Hashable, Sendable {
    /// The kind of failure.
    public var code: Code
    /// A sentence for people.
    public var message: String

    /// Creates an error.
    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    /// The kinds of failure. More may be added.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        /// The name of the code.
        public let description: String

        private init(_ description: String) {
            self.description = description
        }

        /// The server cannot be reached, or not now.
        public static let unavailable = Code("unavailable")
        /// The call took too long.
        public static let timedOut = Code("timedOut")
        /// The server has no memory left for a value.
        public static let full = Code("full")
        /// The server takes no changes, as a replica does.
        public static let readOnly = Code("readOnly")
        /// The server's answer makes no sense.
        public static let malformed = Code("malformed")
        /// The build or the settings lack something that is needed, such as TLS.
        public static let unsupported = Code("unsupported")
    }
}

extension RemoteTierError: CustomStringConvertible {
    /// The message and the code.
    public var description: String { "\(message) [\(code)]" }
}
