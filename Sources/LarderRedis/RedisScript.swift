#if Redis
    /// The steps that the server makes as one.
    enum RedisScript: CaseIterable, Hashable, Sendable {
        case read, write, remove, clear, lease, endLease

        var text: String {
            switch self {
            case .read: RedisScripts.read
            case .write: RedisScripts.write
            case .remove: RedisScripts.remove
            case .clear: RedisScripts.clear
            case .lease: RedisScripts.lease
            case .endLease: RedisScripts.endLease
            }
        }
    }
#endif
