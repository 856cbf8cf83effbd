#if Redis
    /// The time before the next attempt to connect: twice as long after each failure, up to half a minute.
    ///
    /// It begins anew only after a connection that has lasted, and answered pings. Every machine would otherwise ask a
    /// server that ends each connection at once for up to forty a second.
    struct RedisBackoff: Sendable {
        static let shortest = Duration.milliseconds(50)
        static let longest = Duration.seconds(30)
        private static let settled = Duration.seconds(6)

        private var wait = shortest

        /// Returns the time after an attempt that has ended, with the connection that it made, after `lasted`. Half of
        /// it is multiplied by `jitter`, from 0 to 1, so that machines do not come back all at once.
        mutating func next(after lasted: Duration, jitter: Double) -> Duration {
            if lasted > Self.settled { wait = Self.shortest }
            defer { wait = min(wait * 2, Self.longest) }
            return wait / 2 + wait * (jitter / 2)
        }
    }
#endif
