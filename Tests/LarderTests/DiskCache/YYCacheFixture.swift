#if SQLite
    import CSQLite
    import Foundation
    import LarderTestSupport

    /// A directory as YYCache writes it: by its own schema and statements, those of `YYKVStorage`.
    final class YYCacheFixture {
        static let schema = """
            create table if not exists manifest (key text, filename text, size integer, inline_data blob, \
            modification_time integer, last_access_time integer, extended_data blob, primary key(key)); \
            create index if not exists last_access_time_idx on manifest(last_access_time);
            """
        private static let insertion = """
            insert or replace into manifest (key, filename, size, inline_data, modification_time, last_access_time, \
            extended_data) values (?1, ?2, ?3, ?4, ?5, ?6, ?7);
            """

        struct Failure: Error {
            let message: String
        }

        let url: URL
        let manager = FileManager.default
        private var database: OpaquePointer?

        var manifest: URL { url.appendingPathComponent("manifest.sqlite") }
        var log: URL { url.appendingPathComponent("manifest.sqlite-wal") }
        var index: URL { url.appendingPathComponent("manifest.sqlite-shm") }

        init(_ url: URL, schema: String = YYCacheFixture.schema) throws {
            self.url = url
            for folder in ["data", "trash"] {
                try manager.createDirectory(at: url.appendingPathComponent(folder), withIntermediateDirectories: true)
            }
            try open()
            try execute("pragma journal_mode = wal; pragma synchronous = normal;")
            try execute(schema)
        }

        deinit {
            close()
        }

        func open() throws {
            guard sqlite3_open(manifest.path, &database) == SQLITE_OK else { throw Failure(message: "open") }
        }

        /// The last connection moves the log into the database.
        func close() {
            sqlite3_close(database)
            database = nil
        }

        func execute(_ text: String) throws {
            var message: UnsafeMutablePointer<CChar>?
            defer { sqlite3_free(message) }
            guard sqlite3_exec(database, text, nil, nil, &message) == SQLITE_OK else {
                throw Failure(message: message.map { String(cString: $0) } ?? text)
            }
        }

        /// Stores a value as `saveItemWithKey:value:filename:extendedData:` does: with a name in a file, else in the row.
        func save(_ key: String, _ value: Data, filename: String? = nil, at time: Int = 0, extended: Data? = nil) throws
        {
            if let filename { try value.write(to: file(filename)) }
            var statement: OpaquePointer?
            guard sqlite3_prepare_v2(database, Self.insertion, -1, &statement, nil) == SQLITE_OK else {
                throw Failure(message: "prepare")
            }
            defer { sqlite3_finalize(statement) }
            let transient = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
            sqlite3_bind_text(statement, 1, key, -1, transient)
            if let filename { sqlite3_bind_text(statement, 2, filename, -1, transient) }
            sqlite3_bind_int(statement, 3, Int32(value.count))
            if filename == nil {
                _ = value.withUnsafeBytes {
                    sqlite3_bind_blob(statement, 4, $0.baseAddress, Int32($0.count), transient)
                }
            }
            sqlite3_bind_int(statement, 5, Int32(time))
            sqlite3_bind_int(statement, 6, Int32(time))
            if let extended {
                _ = extended.withUnsafeBytes {
                    sqlite3_bind_blob(statement, 7, $0.baseAddress, Int32($0.count), transient)
                }
            }
            guard sqlite3_step(statement) == SQLITE_DONE else { throw Failure(message: "step") }
        }

        /// Inserts a row of SQL expressions, as a hostile writer may.
        func insert(
            key: String, filename: String = "NULL", size: String = "1", data: String = "NULL", modified: String = "0",
            used: String = "0"
        ) throws {
            try execute(
                "insert into manifest values (\(key), \(filename), \(size), \(data), \(modified), \(used), NULL)")
        }

        func file(_ name: String) -> URL { url.appendingPathComponent("data").appendingPathComponent(name) }

        /// Closes the database as a kill does: with its log.
        func kill() throws {
            let files = try [manifest, log, index].map { ($0, try Data(contentsOf: $0)) }
            close()
            for (url, bytes) in files { try bytes.write(to: url) }
        }

        /// Closes the database and changes its bytes.
        func change(_ body: (inout Data) throws -> Void) throws {
            close()
            var bytes = try Data(contentsOf: manifest)
            try body(&bytes)
            try bytes.write(to: manifest)
        }

        /// Replaces a file by something else.
        func replace(_ url: URL, by body: (URL) throws -> Void) throws {
            close()
            if manager.fileExists(atPath: url.path) { try manager.removeItem(at: url) }
            try body(url)
        }

        /// Makes a file of zeros that takes no room.
        func makeHole(_ url: URL, size: UInt64) throws {
            try Data().write(to: url)
            let handle = try FileHandle(forWritingTo: url)
            try handle.truncate(atOffset: size)
            try handle.close()
        }
    }
#endif
