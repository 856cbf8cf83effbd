#if Redis
    /// The settings of a connection.
    public struct RedisConfiguration: Sendable {
        /// The name or the address of the server. Default: the own machine.
        public var host = "127.0.0.1"
        /// The port. Default: 6379.
        public var port = 6379
        /// The path of the server's socket, instead of host and port. Default: nil.
        public var socketPath: String?
        /// The user's name. Default: nil, the server's default user.
        public var username: String?
        /// The password. Default: nil, none.
        public var password: String?
        /// The number of the database. Default: 0.
        public var database = 0
        /// The beginning of all keys on the server: different for applications that share one. Default: "cache".
        public var prefix = "cache"
        /// Whether the connection is encrypted. Needs hiredis 1.0 with its library hiredis_ssl; without these the
        /// tier never connects, and its state says why.
        ///
        /// The server's certificate must be signed by one that is trusted. Before 1.5, hiredis does not compare its
        /// name with ``host``: trust a certificate of your own then, by ``certificatesPath``. Default: false.
        public var usesTLS = false
        /// The path of a file with the certificates that are trusted. Default: nil, those of the system, where Debian,
        /// Fedora, openSUSE, Alpine and macOS have them.
        public var certificatesPath: String?
        /// The longest time that connecting may take. Default: a second.
        public var connectTimeout: Duration = .seconds(1)
        /// The longest time that the server may take for the next reply; then the connection is made anew. On a slow
        /// link it has to exceed the time that the largest value takes. Default: a second.
        public var replyTimeout: Duration = .seconds(1)
        /// The longest reply, in bytes; a longer one ends the connection. Payloads longer than this minus 300 KiB are
        /// not read; keep it at least 300 KiB above `RemoteTierPolicy.sizeLimit`. Default: 8 MiB.
        public var replyLimit = 8 << 20

        /// Creates settings; every one that is left out has its default.
        public init(
            host: String = "127.0.0.1", port: Int = 6379, socketPath: String? = nil, username: String? = nil,
            password: String? = nil, database: Int = 0, prefix: String = "cache", usesTLS: Bool = false,
            certificatesPath: String? = nil, connectTimeout: Duration = .seconds(1),
            replyTimeout: Duration = .seconds(1), replyLimit: Int = 8 << 20
        ) {
            self.host = host
            self.port = port
            self.socketPath = socketPath
            self.username = username
            self.password = password
            self.database = database
            self.prefix = prefix
            self.usesTLS = usesTLS
            self.certificatesPath = certificatesPath
            self.connectTimeout = connectTimeout
            self.replyTimeout = replyTimeout
            self.replyLimit = replyLimit
        }
    }

    extension RedisConfiguration: CustomStringConvertible, CustomReflectable {
        /// The server, the database and the prefix; never the password.
        public var description: String {
            let server = socketPath ?? "\(host):\(port)"
            let user = username.map { "\($0)@" } ?? ""
            return "\(user)\(server), database \(database), prefix \"\(prefix)\"\(usesTLS ? ", TLS" : "")"
        }

        /// The description alone, so that `dump` does not show the password either.
        public var customMirror: Mirror { Mirror(self, children: ["settings": description]) }
    }
#endif
