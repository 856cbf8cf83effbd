#if Redis
    import Foundation
    import Larder

    /// Makes the connections of a tier. Blocks, for at most the timeouts of the settings.
    struct RedisHandshake {
        /// The channel of the server's own notices.
        static let invalidations = "__redis__:invalidate"

        let link: RedisLink
        let epoch: RedisEpoch
        /// The names of the scripts on the server.
        let digests: [RedisScript: String]

        init(_ settings: RedisConfiguration, _ names: RedisNames) throws {
            let notices = try RedisConnection(settings)
            try Self.logIn(notices, settings)
            guard let id = try notices.run(["CLIENT", "ID"]).number else { throw RemoteTierError.nonsense("CLIENT ID") }
            for channel in [Self.invalidations, names.changes, names.clears, names.ends] {
                _ = try notices.run(["SUBSCRIBE", channel])
            }
            let commands = try RedisConnection(settings)
            try Self.logIn(commands, settings)
            if settings.database != 0 { _ = try commands.run(["SELECT", "\(settings.database)"]) }
            var digests: [RedisScript: String] = [:]
            for script in RedisScript.allCases {
                digests[script] = try commands.run(["SCRIPT", "LOAD", script.text]).text
            }
            // The scripts publish changes, with the node that made them: the server would tell a connection of its own
            // as well, as NOLOOP does not hold for scripts. No key has the prefix that is tracked; but every connection
            // that tracks is told when a database is emptied.
            _ = try commands.run([
                "CLIENT", "TRACKING", "ON", "REDIRECT", "\(id)", "BCAST", "PREFIX", names.nothing, "NOLOOP",
            ])
            let key = names.epoch
            func question() -> [String] {
                ["EVAL", RedisScripts.epoch, "1", key, String(UInt64.random(in: 1 ... .max), radix: 16)]
            }
            epoch = try RedisEpoch(commands.run(question()))
            notices.unblock()
            commands.unblock()
            link = RedisLink(
                commands: commands, notices: notices, replyTimeout: settings.replyTimeout,
                question: { question().map { Data($0.utf8) } }, epoch: epoch.kept)
            self.digests = digests
        }

        private static func logIn(_ connection: RedisConnection, _ settings: RedisConfiguration) throws {
            if settings.username == nil, settings.password == nil { return }
            _ = try connection.run(["AUTH"] + (settings.username.map { [$0] } ?? []) + [settings.password ?? ""])
        }
    }
#endif
