#if SQLite
    import CSQLite
    import Foundation

    /// The database that many programs use as a cache, with a write-ahead log that is synced at its checkpoints, and a
    /// transaction for each set.
    extension Scenario {
        static var sqlite: [Scenario] {
            sizes.map { insert($0) } + sizes.map { select($0) } + [insert(1 << 10, isPowerSafe: true)]
                + [insertOnTwo, selectOnTwo]
        }

        /// `isPowerSafe`: each transaction is synced.
        private static func insert(_ size: Int, isPowerSafe: Bool = false) -> Scenario {
            Scenario(
                name: isPowerSafe ? "SQLite FULL set" : "SQLite set", size: size, unit: .us,
                floor: Floor.setting(size, hashing: false)
            ) { folder in
                let database = try Database(folder.own, synchronous: isPowerSafe ? "FULL" : "NORMAL")
                let floor = try Floor(folder, size: size, hashing: false)
                let (bytes, count) = (Content.bytes(size), isPowerSafe ? 100 : Content.operations(size))
                return Run { round in
                    turns(count) { number in
                        database.set(bytes, Content.key(round * count + number))
                    } floor: { number in
                        floor.set("\(round * count + number)", bytes)
                    }
                }
            }
        }

        private static func select(_ size: Int) -> Scenario {
            Scenario(name: "SQLite get", size: size, unit: .us, floor: Floor.getting(size, hashing: false)) { folder in
                let (database, floor) = (try Database(folder.own), try Floor(folder, size: size, hashing: false))
                let (bytes, count) = (Content.bytes(size), Content.operations(size))
                for number in 0..<count {
                    database.set(bytes, Content.key(number))
                    floor.set("\(number)", bytes)
                }
                return Run { _ in
                    turns(count) { number in
                        precondition(database.get(Content.key(number * 7919 % count))?.count == size)
                    } floor: { number in
                        floor.get("\(number * 7919 % count)")
                    }
                }
            }
        }

        private static var insertOnTwo: Scenario {
            onTwo("SQLite set, two threads") { folder in
                let (databases, bytes) = (try connections(folder), Content.bytes(1 << 10))
                return { thread, number in databases[thread].value.set(bytes, Content.key(number)) }
            }
        }

        private static var selectOnTwo: Scenario {
            onTwo("SQLite get, two threads") { folder in
                let (databases, count) = (try connections(folder), Content.operations(1 << 10))
                databases[0].value.fill(count, Content.bytes(1 << 10))
                return { thread, number in
                    let value = databases[thread].value.get(Content.key(1 + number * 7919 % count))
                    precondition(value?.count == 1 << 10)
                }
            }
        }

        /// One for each thread.
        private static func connections(_ folder: Folder) throws -> [Unshared<Database>] {
            try (0..<2).map { _ in Unshared(value: try Database(folder.own)) }
        }

        /// The first statement makes SQLite read the schema.
        static func openSQLite(_ entries: Int) -> Scenario? {
            Scenario(
                name: openSQLiteName(entries), entries: entries, unit: .ms, floor: "", isLong: entries >= 1_000_000
            ) { folder in
                try Database(folder.own).fill(entries, Array("payload".utf8))
                return Run { round in
                    var samples = Samples()
                    for number in 0..<openings {
                        let database = try timing(&samples) {
                            let database = try Database(folder.own)
                            precondition(database.get(Content.key(entries / 2 + round + number)) != nil)
                            return database
                        }
                        withExtendedLifetime(database) {}
                    }
                    return (samples, Samples())
                }
            }
        }
    }

    extension Worker {
        static let hasDatabase = true

        static func database(_ directory: URL) throws -> Store {
            let (database, bytes) = (try Database(directory), Content.bytes(1 << 10))
            return Store(
                set: { database.set(bytes, $0) }, get: { database.get($0) != nil },
                close: { withExtendedLifetime(database) {} })
        }
    }

    /// One table of keys and values, its two statements prepared once. For one thread; other processes are waited for.
    private final class Database {
        private var handle: OpaquePointer?
        private var insert: OpaquePointer?
        private var select: OpaquePointer?
        /// Tells SQLite that the memory stays valid until the statement is reset.
        private let isStatic: sqlite3_destructor_type? = nil

        init(_ directory: URL, synchronous: String = "NORMAL") throws {
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
            let path = directory.appendingPathComponent("cache.sqlite").path
            let schema = """
                PRAGMA journal_mode = WAL; PRAGMA synchronous = \(synchronous);
                CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value BLOB, expires INTEGER);
                """
            guard sqlite3_open(path, &handle) == SQLITE_OK, sqlite3_busy_timeout(handle, 60_000) == SQLITE_OK,
                sqlite3_exec(handle, schema, nil, nil, nil) == SQLITE_OK,
                sqlite3_prepare_v2(handle, "INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", -1, &insert, nil)
                    == SQLITE_OK,
                sqlite3_prepare_v2(handle, "SELECT value FROM entries WHERE key = ? AND expires > ?", -1, &select, nil)
                    == SQLITE_OK
            else { throw BenchFailure("SQLite: \(String(cString: sqlite3_errmsg(handle)))") }
        }

        deinit {
            sqlite3_finalize(insert)
            sqlite3_finalize(select)
            sqlite3_close(handle)
        }

        func set(_ bytes: [UInt8], _ key: String) {
            key.withCString { key in
                sqlite3_bind_text(insert, 1, key, -1, isStatic)
                sqlite3_bind_blob(insert, 2, bytes, Int32(bytes.count), isStatic)
                sqlite3_bind_int64(insert, 3, .max)
                precondition(sqlite3_step(insert) == SQLITE_DONE)
                sqlite3_reset(insert)
            }
        }

        /// Stores a value under many keys, in one transaction.
        func fill(_ entries: Int, _ bytes: [UInt8]) {
            precondition(sqlite3_exec(handle, "BEGIN", nil, nil, nil) == SQLITE_OK)
            for number in 1...entries { set(bytes, Content.key(number)) }
            precondition(sqlite3_exec(handle, "COMMIT", nil, nil, nil) == SQLITE_OK)
        }

        func get(_ key: String) -> Data? {
            key.withCString { key in
                sqlite3_bind_text(select, 1, key, -1, isStatic)
                sqlite3_bind_int64(select, 2, 0)
                defer { sqlite3_reset(select) }
                guard sqlite3_step(select) == SQLITE_ROW, let bytes = sqlite3_column_blob(select, 0) else { return nil }
                return Data(bytes: bytes, count: Int(sqlite3_column_bytes(select, 0)))
            }
        }
    }
#else
    import Foundation

    extension Scenario {
        /// Only with the package's trait `SQLite`, which needs its headers.
        static var sqlite: [Scenario] { [] }
        static func openSQLite(_ entries: Int) -> Scenario? { nil }
    }

    extension Worker {
        static let hasDatabase = false
        static func database(_ directory: URL) throws -> Store { throw BenchFailure("see --help") }
    }
#endif

extension Scenario {
    static func openSQLiteName(_ entries: Int) -> String { "SQLite open, \(Figure.short(entries)) entries" }
}
