#if SQLite
    import CSQLite
    import LarderFiles

    /// A database that somebody else wrote, open to read one table of it: SQLite's advice on untrusted files, as calls.
    final class SQLiteDatabase {
        fileprivate let raw: OpaquePointer
        private let budget: StepBudget
        private let owner: AnyObject?

        /// Opens a database that exists.
        ///
        /// `largestValue`: bytes; a longer string or blob is a failure where it is read. `mostSteps`: instructions of
        /// SQLite's machine, after which every statement fails; a million rows take a third of the default. `owner`
        /// lives until the database is closed.
        init(
            path: String, largestValue: Int, mostSteps: Int = 200_000_000, keeping owner: AnyObject? = nil
        ) throws(SQLiteFailure) {
            var opened: OpaquePointer?
            let code = sqlite3_open_v2(
                path, &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE, nil)
            guard let opened, code == SQLITE_OK else {
                sqlite3_close_v2(opened)
                throw SQLiteFailure(code: code)
            }
            raw = opened
            self.owner = owner
            budget = StepBudget(mostSteps)
            // From here on `deinit` closes it, after an error, too.
            let limits = [
                SQLITE_LIMIT_LENGTH: largestValue, SQLITE_LIMIT_SQL_LENGTH: 100_000, SQLITE_LIMIT_COLUMN: 100,
                SQLITE_LIMIT_EXPR_DEPTH: 10, SQLITE_LIMIT_COMPOUND_SELECT: 3, SQLITE_LIMIT_VDBE_OP: 25_000,
                SQLITE_LIMIT_FUNCTION_ARG: 8, SQLITE_LIMIT_ATTACHED: 0, SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 50,
                SQLITE_LIMIT_VARIABLE_NUMBER: 10, SQLITE_LIMIT_TRIGGER_DEPTH: 1, SQLITE_LIMIT_WORKER_THREADS: 0,
            ]
            for (limit, value) in limits { sqlite3_limit(raw, limit, Int32(clamping: value)) }
            let features = [
                (SQLITE_DBCONFIG_DEFENSIVE, true), (SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
                (SQLITE_DBCONFIG_ENABLE_VIEW, false), (SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
                (SQLITE_DBCONFIG_WRITABLE_SCHEMA, false), (SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, false),
                // What it would save is deleted.
                (SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true),
            ]
            for (feature, isOn) in features {
                try check(larder_sqlite3_configure(raw, feature, isOn ? 1 : 0))
            }
            budget.limit(raw)
            for setting in [
                "trusted_schema=OFF", "cell_size_check=ON", "mmap_size=0", "temp_store=MEMORY", "query_only=ON",
            ] {
                let statement = try prepare("PRAGMA \(setting)")
                while try statement.step() {}
            }
        }

        deinit {
            // Statements that are still there keep it open until they are gone.
            sqlite3_close_v2(raw)
        }

        func prepare(_ text: String) throws(SQLiteFailure) -> SQLiteStatement {
            try SQLiteStatement(text, self)
        }

        fileprivate func check(_ code: Int32) throws(SQLiteFailure) {
            if code != SQLITE_OK { throw SQLiteFailure(code: code) }
        }
    }

    /// Ends a statement that takes too many steps, as in a tree that contains itself.
    private final class StepBudget {
        private static let stride = 10_000
        private var strides: Int

        init(_ steps: Int) {
            strides = steps / Self.stride
        }

        /// The database must not outlive this object, nor run on two threads.
        func limit(_ database: OpaquePointer) {
            sqlite3_progress_handler(
                database, Int32(Self.stride),
                { context in
                    guard let context else { return 1 }
                    let budget = Unmanaged<StepBudget>.fromOpaque(context).takeUnretainedValue()
                    budget.strides -= 1
                    return budget.strides < 0 ? 1 : 0
                }, Unmanaged.passUnretained(self).toOpaque())
        }
    }

    /// A statement, which keeps its database open.
    final class SQLiteStatement {
        private let raw: OpaquePointer
        private let database: SQLiteDatabase

        fileprivate init(_ text: String, _ database: SQLiteDatabase) throws(SQLiteFailure) {
            var prepared: OpaquePointer?
            try database.check(sqlite3_prepare_v2(database.raw, text, -1, &prepared, nil))
            guard let prepared else { throw SQLiteFailure(code: SQLITE_ERROR) }
            raw = prepared
            self.database = database
        }

        deinit {
            sqlite3_finalize(raw)
        }

        /// Goes to the next row; false when there is none.
        func step() throws(SQLiteFailure) -> Bool {
            switch sqlite3_step(raw) {
            case SQLITE_ROW: true
            case SQLITE_DONE: false
            case let code: throw SQLiteFailure(code: code)
            }
        }

        func reset() {
            sqlite3_reset(raw)
        }

        /// Binds the first parameter.
        func bind(_ number: Int64) throws(SQLiteFailure) {
            try database.check(sqlite3_bind_int64(raw, 1, number))
        }

        func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(raw, column) }

        /// The value of a column, but not the bytes of a blob.
        func value(_ column: Int32) -> SQLiteValue {
            switch sqlite3_column_type(raw, column) {
            case SQLITE_NULL: return .null
            case SQLITE_INTEGER: return .integer(integer(column))
            case SQLITE_TEXT:
                // Nil: there was no memory for it.
                guard let start = sqlite3_column_text(raw, column) else { return .other }
                let count = Int(sqlite3_column_bytes(raw, column))
                return .text([UInt8](UnsafeBufferPointer(start: start, count: count)))
            default: return .other
            }
        }

        /// The bytes of a blob, until the next step; nil when the column has something else.
        func blob(_ column: Int32) -> UnsafeRawBufferPointer? {
            guard sqlite3_column_type(raw, column) == SQLITE_BLOB else { return nil }
            let start = sqlite3_column_blob(raw, column)
            return UnsafeRawBufferPointer(
                start: start, count: start == nil ? 0 : Int(sqlite3_column_bytes(raw, column)))
        }
    }

    /// A value of a row.
    enum SQLiteValue {
        case null
        case integer(Int64)
        /// UTF-8 if the writer was honest.
        case text([UInt8])
        case other

        var integer: Int64? {
            if case .integer(let number) = self { number } else { nil }
        }

        /// Nil: not text, or not UTF-8.
        var text: String? {
            guard case .text(let bytes) = self else { return nil }
            let text = String(decoding: bytes, as: UTF8.self)
            return text.utf8.elementsEqual(bytes) ? text : nil
        }
    }

    /// The reason why a database cannot be read.
    struct SQLiteFailure: Error {
        let reason: String
        /// Whether the disk or the memory is to blame, not the database.
        let isOfSystem: Bool

        init(_ reason: String) {
            self.reason = reason
            isOfSystem = false
        }

        /// SQLite's own words for the code alone: its messages quote the database.
        init(code: Int32) {
            reason = String(cString: sqlite3_errstr(code))
            isOfSystem = [SQLITE_CANTOPEN, SQLITE_FULL, SQLITE_IOERR, SQLITE_NOMEM, SQLITE_PERM].contains(code & 0xff)
        }
    }
#endif
