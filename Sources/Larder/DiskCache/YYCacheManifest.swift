#if SQLite
    import LarderFiles

    /// The table of a manifest of YYCache, read by SQLite from a private copy.
    ///
    /// Whoever wrote the file may be hostile. SQLite runs no code of its schema, takes no more memory than the limits
    /// below, and ends after a number of steps. Nothing is written.
    final class YYCacheManifest {
        /// Bytes of inline data, and of every other string or blob.
        static let largestValue = 64 << 20
        static let mostRows = 1 << 20
        private static let columns = [
            "key", "filename", "size", "inline_data", "modification_time", "last_access_time", "extended_data",
        ]

        private let copy: YYCacheCopy
        /// Only for messages.
        private let path: String
        private let database: SQLiteDatabase
        private let inlineData: SQLiteStatement

        /// A row as it is found.
        struct Row {
            let id: Int64
            /// Null: something other than a text.
            let key: SQLiteValue
            /// An integer: neither a text nor null.
            let filename: SQLiteValue
            /// Nil, here and below: something other than an integer.
            let size: Int64?
            /// Bytes; nil: there are none, a negative number: something other than bytes.
            let inlineSize: Int64?
            let modified: Int64?
            let used: Int64?

            /// Bytes in the database, at least.
            fileprivate var length: Int {
                let texts = [key, filename].map { if case .text(let bytes) = $0 { bytes.count } else { 0 } }
                return texts[0] + texts[1] + max(0, Int(inlineSize ?? 0))
            }
        }

        init(_ copy: YYCacheCopy, path: String) throws(CacheError) {
            self.copy = copy
            self.path = path
            do throws(SQLiteFailure) {
                // The copy is deleted after it is closed.
                database = try SQLiteDatabase(path: copy.path, largestValue: Self.largestValue, keeping: copy)
                try Self.check(database)
                try Self.checkSize(database, copy)
                // Without any index, which may say something other than the table.
                inlineData = try database.prepare("SELECT inline_data FROM main.manifest NOT INDEXED WHERE rowid = ?1")
            } catch {
                throw Self.translated(error, path)
            }
        }

        private static func translated(_ failure: SQLiteFailure, _ path: String) -> CacheError {
            CacheError(
                code: failure.isOfSystem ? .io : .undecodable,
                message: "\(YYCacheCopy.manifest) is not a readable manifest of YYCache: \(failure.reason).", path: path
            )
        }

        /// Throws unless `manifest` is a plain table with the columns of YYCache.
        private static func check(_ database: SQLiteDatabase) throws(SQLiteFailure) {
            let others = try database.prepare(
                "SELECT type FROM main.sqlite_master WHERE type NOT IN ('table', 'index') LIMIT 1")
            if try others.step() { throw SQLiteFailure("it has views or triggers") }
            // SQLite keeps these words before the name of each table, and others for a virtual one.
            let tables = try database.prepare(
                """
                SELECT type = 'table' AND rootpage > 1 AND substr(sql, 1, 13) = 'CREATE TABLE '
                FROM main.sqlite_master WHERE name = 'manifest' COLLATE NOCASE
                """)
            guard try tables.step(), tables.integer(0) == 1, try !tables.step() else {
                throw SQLiteFailure("it has no table manifest")
            }
            var found: [String] = []
            let columns = try database.prepare("PRAGMA main.table_xinfo(manifest)")
            while try columns.step() {
                let name = columns.value(1).text ?? ""
                // Of two keys, SQLite would refuse the second. Hidden columns are computed.
                guard (columns.integer(5) != 0) == (name == "key"), columns.integer(6) == 0 else {
                    throw SQLiteFailure("its column \(name.debugDescription) is not YYCache's")
                }
                found.append(name)
            }
            guard found == Self.columns else { throw SQLiteFailure("its columns are not those of YYCache") }
        }

        /// Throws when the last page was cut, which SQLite would fill with zeros. A log may have it whole.
        private static func checkSize(_ database: SQLiteDatabase, _ copy: YYCacheCopy) throws(SQLiteFailure) {
            let page = try database.prepare("PRAGMA main.page_size")
            guard try page.step(), case let size = page.integer(0), size > 0,
                copy.sizes[YYCacheCopy.log, default: 0] > 0
                    || copy.sizes[YYCacheCopy.manifest, default: 0] % Int(size) == 0
            else { throw SQLiteFailure("its last page is cut") }
        }

        /// Calls `body` with each row, in the order of their numbers. O(rows).
        func forEachRow(_ body: (Row) -> Void) throws(CacheError) {
            do throws(SQLiteFailure) {
                // SQLite takes types and lengths from the heads of rows that are long: it reads no bytes but those of
                // texts, and they are counted.
                let rows = try database.prepare(
                    """
                    SELECT rowid, CASE typeof(key) WHEN 'text' THEN key END,
                    CASE typeof(filename) WHEN 'text' THEN filename WHEN 'null' THEN NULL ELSE 0 END,
                    CASE typeof(size) WHEN 'integer' THEN size END,
                    CASE typeof(inline_data) WHEN 'blob' THEN length(inline_data) WHEN 'null' THEN NULL ELSE -1 END,
                    CASE typeof(modification_time) WHEN 'integer' THEN modification_time END,
                    CASE typeof(last_access_time) WHEN 'integer' THEN last_access_time END
                    FROM main.manifest NOT INDEXED ORDER BY rowid
                    """)
                let size = copy.sizes.values.reduce(0, +)
                var (last, count, bytes) = (Int64?.none, 0, 0)
                while try rows.step() {
                    let row = Row(
                        id: rows.integer(0), key: rows.value(1), filename: rows.value(2), size: rows.value(3).integer,
                        inlineSize: rows.value(4).integer, modified: rows.value(5).integer,
                        used: rows.value(6).integer)
                    // Pages that are in the tree several times would give rows without end, or bytes.
                    if let last, row.id <= last { throw SQLiteFailure("its rows have no order") }
                    last = row.id
                    count += 1
                    if count > Self.mostRows { throw SQLiteFailure("it has more than \(Self.mostRows) rows") }
                    bytes += row.length
                    if bytes > size { throw SQLiteFailure("its rows claim more bytes than it has") }
                    body(row)
                }
            } catch {
                throw Self.translated(error, path)
            }
        }

        /// Calls `body` with the inline data of a row, which has that size.
        func withInlineData<Result>(
            ofRow id: Int64, size: Int, _ body: (UnsafeRawBufferPointer) throws(CacheError) -> Result
        ) throws(CacheError) -> Result {
            inlineData.reset()
            defer { inlineData.reset() }
            let bytes: UnsafeRawBufferPointer
            do throws(SQLiteFailure) {
                try inlineData.bind(id)
                guard try inlineData.step(), let found = inlineData.blob(0), found.count == size else {
                    throw SQLiteFailure("its data is not what the scan has found")
                }
                bytes = found
            } catch {
                throw Self.translated(error, path)
            }
            return try body(bytes)
        }
    }
#endif
