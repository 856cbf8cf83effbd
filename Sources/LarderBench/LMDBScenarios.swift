#if LMDB
    import CLMDB
    import Foundation

    /// A database in a mapped file. It is not synced.
    extension Scenario {
        static var lmdb: [Scenario] { sizes.map { put($0) } + sizes.map { read($0) } + [putOnTwo, readOnTwo] }

        private static func put(_ size: Int) -> Scenario {
            Scenario(
                name: "LMDB set", size: size, unit: .us, floor: Floor.setting(size, hashing: false)
            ) { folder in
                let (database, floor) = (try MappedDatabase(folder), try Floor(folder, size: size, hashing: false))
                let (bytes, count) = (Content.bytes(size), Content.operations(size))
                return Run { round in
                    try turns(count) { number in
                        try database.set(bytes, Content.key(round * count + number))
                    } floor: { number in
                        floor.set("\(round * count + number)", bytes)
                    }
                }
            }
        }

        private static func read(_ size: Int) -> Scenario {
            Scenario(name: "LMDB get", size: size, unit: .us, floor: Floor.getting(size, hashing: false)) { folder in
                let (database, floor) = (try MappedDatabase(folder), try Floor(folder, size: size, hashing: false))
                let (bytes, count) = (Content.bytes(size), Content.operations(size))
                for number in 0..<count {
                    try database.set(bytes, Content.key(number))
                    floor.set("\(number)", bytes)
                }
                return Run { _ in
                    try turns(count) { number in
                        let value = try database.get(Content.key(number * 7919 % count))
                        precondition(value?.count == size)
                    } floor: { number in
                        floor.get("\(number * 7919 % count)")
                    }
                }
            }
        }

        private static var putOnTwo: Scenario {
            onTwo("LMDB set, two threads") { folder in
                let (database, bytes) = (try MappedDatabase(folder), Content.bytes(1 << 10))
                return { _, number in precondition((try? database.set(bytes, Content.key(number))) != nil) }
            }
        }

        private static var readOnTwo: Scenario {
            onTwo("LMDB get, two threads") { folder in
                let (database, count) = (try MappedDatabase(folder), Content.operations(1 << 10))
                try database.fill(count, Content.bytes(1 << 10))
                return { _, number in
                    let value = try? database.get(Content.key(1 + number * 7919 % count))
                    precondition(value?.count == 1 << 10)
                }
            }
        }

        static func openLMDB(_ entries: Int) -> Scenario? {
            Scenario(
                name: openLMDBName(entries), entries: entries, unit: .ms, floor: "", isLong: entries >= 1_000_000
            ) { folder in
                try MappedDatabase(folder).fill(entries, Array("payload".utf8))
                return Run { round in
                    var samples = Samples()
                    for number in 0..<openings {
                        let database = try timing(&samples) {
                            let database = try MappedDatabase(folder)
                            let value = try database.get(Content.key(entries / 2 + round + number))
                            precondition(value != nil)
                            return database
                        }
                        withExtendedLifetime(database) {}
                    }
                    return (samples, Samples())
                }
            }
        }
    }

    /// The unnamed database of an environment.
    ///
    /// `@unchecked Sendable`: LMDB locks.
    private final class MappedDatabase: @unchecked Sendable {
        /// The largest size of the file. Bytes.
        private static let mapSize = 1 << 30

        private var environment: OpaquePointer?

        init(_ folder: Folder) throws {
            try FileManager.default.createDirectory(at: folder.own, withIntermediateDirectories: true)
            try Self.check(mdb_env_create(&environment))
            try Self.check(mdb_env_set_mapsize(environment, Self.mapSize))
            try Self.check(mdb_env_open(environment, folder.own.path, UInt32(MDB_NOSYNC), 0o600))
        }

        deinit {
            mdb_env_close(environment)
        }

        /// Stores a value under many keys, in one transaction.
        func fill(_ entries: Int, _ bytes: [UInt8]) throws {
            try transaction(0) { transaction, database in
                for number in 1...entries {
                    try Self.withValue(Array(Content.key(number).utf8)) { key in
                        try Self.withValue(bytes) { value in
                            try Self.check(mdb_put(transaction, database, &key, &value, 0))
                        }
                    }
                }
            }
        }

        /// Stores a value in a transaction of its own.
        func set(_ bytes: [UInt8], _ key: String) throws {
            try transaction(0) { transaction, database in
                try Self.withValue(Array(key.utf8)) { key in
                    try Self.withValue(bytes) { value in
                        try Self.check(mdb_put(transaction, database, &key, &value, 0))
                    }
                }
            }
        }

        func get(_ key: String) throws -> Data? {
            try transaction(UInt32(MDB_RDONLY)) { transaction, database in
                try Self.withValue(Array(key.utf8)) { key in
                    var value = MDB_val()
                    let code = mdb_get(transaction, database, &key, &value)
                    if code == MDB_NOTFOUND { return nil }
                    try Self.check(code)
                    return value.mv_data.map { Data(bytes: $0, count: value.mv_size) }
                }
            }
        }

        private func transaction<Result>(
            _ flags: UInt32, _ body: (_ transaction: OpaquePointer?, _ database: MDB_dbi) throws -> Result
        ) throws -> Result {
            var transaction: OpaquePointer?
            try Self.check(mdb_txn_begin(environment, nil, flags, &transaction))
            var database: MDB_dbi = 0
            let result: Result
            do {
                try Self.check(mdb_dbi_open(transaction, nil, 0, &database))
                result = try body(transaction, database)
            } catch {
                mdb_txn_abort(transaction)
                throw error
            }
            try Self.check(mdb_txn_commit(transaction))
            return result
        }

        private static func withValue<Result>(
            _ bytes: [UInt8], _ body: (inout MDB_val) throws -> Result
        ) rethrows -> Result {
            var bytes = bytes
            return try bytes.withUnsafeMutableBytes { bytes in
                var value = MDB_val(mv_size: bytes.count, mv_data: bytes.baseAddress)
                return try body(&value)
            }
        }

        private static func check(_ code: Int32) throws {
            if code != 0 { throw BenchFailure("LMDB: \(String(cString: mdb_strerror(code)))") }
        }
    }
#else
    extension Scenario {
        /// Only with the package's trait `LMDB`, which needs its headers.
        static var lmdb: [Scenario] { [] }
        static func openLMDB(_ entries: Int) -> Scenario? { nil }
    }
#endif

extension Scenario {
    static func openLMDBName(_ entries: Int) -> String { "LMDB open, \(Figure.short(entries)) entries" }
}
