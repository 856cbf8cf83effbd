#if SQLite
    import Foundation
    import LarderTestSupport
    import LarderTesting
    import Testing

    @testable import Larder

    @Suite("Coming from YYCache: nothing in a hostile directory does harm")
    struct YYCacheDamageTests {
        /// Something that a hostile or a broken program has written.
        struct Damage: Sendable, CustomTestStringConvertible {
            let testDescription: String
            /// What the error says.
            let words: String
            let make: @Sendable (YYCacheFixture) throws -> Void

            init(
                _ name: String, says words: String = "manifest.sqlite",
                _ make: @escaping @Sendable (YYCacheFixture) throws -> Void
            ) {
                testDescription = name
                self.words = words
                self.make = make
            }

            /// A table of this schema instead of YYCache's.
            init(_ name: String, says words: String, schema: String) {
                self.init(name, says: words) { old in
                    try old.execute("drop table manifest")
                    try old.execute(schema)
                }
            }
        }

        /// A row that is skipped, and the reason. The key of each is "bad" unless that is what is wrong.
        struct BadRow: Sendable, CustomTestStringConvertible {
            let testDescription: String
            let reason: ImportReport.Reason
            let title: String
            let make: @Sendable (YYCacheFixture) throws -> Void

            init(
                _ name: String, _ reason: ImportReport.Reason, title: String = "bad",
                _ make: @escaping @Sendable (YYCacheFixture) throws -> Void
            ) {
                (testDescription, self.reason, self.title, self.make) = (name, reason, title, make)
            }
        }

        private let world: YYCacheWorld

        init() throws {
            world = try YYCacheWorld()
        }

        private static let types = """
            size integer, inline_data blob, modification_time integer, last_access_time integer, extended_data blob
            """

        private static let refused: [Damage] = [
            Damage(
                "a view", says: "views or triggers",
                schema: """
                    create view manifest as select 'bad' as key, null as filename, 1 as size, x'00' as inline_data, \
                    0 as modification_time, 0 as last_access_time, null as extended_data
                    """),
            Damage(
                "a view without end", says: "views or triggers",
                schema: """
                    create view manifest as with recursive n(i) as (select 1 union all select i + 1 from n) \
                    select i as key, null as filename, 1 as size, x'00' as inline_data, 0 as modification_time, \
                    0 as last_access_time, null as extended_data from n
                    """),
            Damage(
                "a virtual table", says: "no table manifest",
                schema: """
                    create virtual table manifest using fts5(key, filename, size, inline_data, modification_time, \
                    last_access_time, extended_data)
                    """),
            Damage("no table", says: "no table manifest", schema: "create table other (key text)"),
            Damage("a trigger", says: "views or triggers") { old in
                try old.execute(
                    "create trigger t after insert on manifest begin delete from manifest where key = 'good'; end")
            },
            Damage("a view beside the table", says: "views or triggers") { old in
                try old.execute("create view v as select key from manifest")
            },
            Damage(
                "one column more", says: "column",
                schema: "create table manifest (key text, filename text, \(types), more blob, primary key(key))"),
            Damage(
                "one column less", says: "column",
                schema: "create table manifest (key text, \(types), primary key(key))"),
            Damage(
                "a column with another name", says: "column",
                schema: "create table manifest (key text, file_name text, \(types), primary key(key))"),
            Damage(
                "columns in another order", says: "column",
                schema: "create table manifest (filename text, key text, \(types), primary key(key))"),
            Damage(
                "a computed column", says: "column",
                schema: "create table manifest (key text, filename text as ('../outside'), \(types), primary key(key))"),
            Damage(
                "a computed column that is stored", says: "column",
                schema: """
                    create table manifest (key text, filename text as ('../' || key) stored, \(types), primary key(key))
                    """),
            Damage(
                "no primary key", says: "column", schema: "create table manifest (key text, filename text, \(types))"),
            Damage(
                "another primary key", says: "column",
                schema: "create table manifest (key text, filename text, \(types), primary key(filename))"),
            Damage(
                "no numbers of rows", says: "error",
                schema: "create table manifest (key text, filename text, \(types), primary key(key)) without rowid"),
            Damage("a view that says it is a table") { old in
                try old.execute("pragma writable_schema = on")
                try old.execute(
                    "update sqlite_master set sql = 'CREATE VIEW manifest AS SELECT 1' where name = 'manifest'")
            },
            Damage("a virtual table that says it has pages") { old in
                try old.execute("pragma writable_schema = on")
                try old.execute(
                    """
                    update sqlite_master set sql = 'CREATE VIRTUAL TABLE manifest USING fts5(key)' \
                    where name = 'manifest'
                    """)
            },
            Damage("a schema without end") { old in
                try old.execute("pragma writable_schema = on")
                try old.execute(
                    """
                    update sqlite_master set sql = 'CREATE TABLE manifest (key text check (' \
                    || replace(hex(zeroblob(100000)), '00', '(') where name = 'manifest'
                    """)
            },
            Damage("a table in the pages of its index") { old in
                try old.execute("pragma writable_schema = on")
                try old.execute(
                    """
                    update sqlite_master set rootpage = (select rootpage from sqlite_master where type = 'index' \
                    limit 1) where name = 'manifest'
                    """)
            },
            Damage("a table beyond the end") { old in
                try old.execute("pragma writable_schema = on")
                try old.execute("update sqlite_master set rootpage = 99999 where name = 'manifest'")
            },
            Damage("a table on the page of the schema") { old in
                try old.execute("pragma writable_schema = on")
                try old.execute("update sqlite_master set rootpage = 1 where name = 'manifest'")
            },
            Damage("pages that are in the tree several times", says: "no order") { old in
                try old.execute("begin")
                for number in 0..<3000 { try old.save("key \(number)", Data(count: 50)) }
                try old.execute("commit")
                try old.change { bytes in
                    let tree = page(bytes, 2)
                    #expect(bytes[tree.offset] == 5, "it has children")
                    for cell in tree.cells { bytes.replaceSubrange(cell..<cell + 4, with: [0, 0, 0, 5]) }
                }
            },
            Damage("a page that is its own child") { old in
                try old.execute("begin")
                for number in 0..<3000 { try old.save("key \(number)", Data(count: 50)) }
                try old.execute("commit")
                try old.change { bytes in
                    let tree = page(bytes, 2)
                    for cell in tree.cells { bytes.replaceSubrange(cell..<cell + 4, with: [0, 0, 0, 2]) }
                }
            },
            Damage("values that share their bytes", says: "claim more bytes") { old in
                // The table is one page, which has less than 600 bytes of each of these rows.
                for number in 0..<6 { try old.save("key \(number)", Data(count: 1_002_602)) }
                try old.change { bytes in
                    let chains = page(bytes, 2).cells.compactMap { chain(bytes, $0, pageSize(bytes)) }
                    #expect(chains.count == 6)
                    // All go on where the first one does, and what the others had is not there.
                    let first = bytes.subdata(in: chains[0]..<chains[0] + 4)
                    for next in chains { bytes.replaceSubrange(next..<next + 4, with: first) }
                    keepQuarter(&bytes)
                }
            },
            Damage("a text that is longer than any value", says: "too big") { old in
                try old.insert(key: "'bad'", filename: "cast(zeroblob(67108865) as text)")
            },
            Damage("an empty file", says: "no table manifest") { old in
                try old.replace(old.manifest) { try Data().write(to: $0) }
            },
            Damage("a text") { old in try old.replace(old.manifest) { try Data("hello".utf8).write(to: $0) } },
            Damage("an encrypted file") { old in
                var generator = RunSeed.generator("encrypted")
                let bytes = Data(generator.bytes(32_768))
                try old.replace(old.manifest) { try bytes.write(to: $0) }
            },
            Damage("the head of a file") { old in try old.change { $0 = $0.prefix(100) } },
            Damage("a cut page", says: "last page") { old in try old.change { $0.removeLast(100) } },
            Damage("more pages than it has") { old in
                try old.change { $0.replaceSubrange(28..<32, with: [0x7F, 0xFF, 0xFF, 0xFF]) }
            },
            Damage("a page size of three") { old in try old.change { $0.replaceSubrange(16..<18, with: [0, 3]) } },
            Damage("a format of the future") { old in try old.change { $0.replaceSubrange(18..<20, with: [9, 9]) } },
            Damage("a schema of the future") { old in
                try old.change { $0.replaceSubrange(44..<48, with: [0, 0, 0, 9]) }
            },
            Damage("a link", says: "not a regular file") { old in
                let target = old.url.deletingLastPathComponent().appendingPathComponent("target")
                try old.replace(old.manifest) { url in
                    try YYCacheFixture(target).save("bad", Data(count: 1))
                    try old.manager.createSymbolicLink(
                        at: url, withDestinationURL: target.appendingPathComponent("manifest.sqlite"))
                }
            },
            Damage("a link to nothing", says: "not a regular file") { old in
                try old.replace(old.manifest) {
                    try old.manager.createSymbolicLink(at: $0, withDestinationURL: old.url.appendingPathComponent("no"))
                }
            },
            Damage("a FIFO", says: "not a regular file") { old in
                try old.replace(old.manifest) { #expect(mkfifo($0.path, 0o600) == 0) }
            },
            Damage("a folder", says: "not a regular file") { old in
                try old.replace(old.manifest) {
                    try old.manager.createDirectory(at: $0, withIntermediateDirectories: false)
                }
            },
            Damage("a gigabyte and a byte", says: "1073741825 bytes") { old in
                try old.replace(old.manifest) { try old.makeHole($0, size: (1 << 30) + 1) }
            },
            Damage("a log that is a link", says: "not a regular file") { old in
                try old.replace(old.log) { url in
                    let outside = old.url.deletingLastPathComponent().appendingPathComponent("outside")
                    try old.manager.createSymbolicLink(at: url, withDestinationURL: outside)
                }
            },
            Damage("a log that is a FIFO", says: "not a regular file") { old in
                try old.replace(old.log) { #expect(mkfifo($0.path, 0o600) == 0) }
            },
            Damage("a log of a gigabyte and a byte", says: "1073741825 bytes") { old in
                try old.replace(old.log) { try old.makeHole($0, size: (1 << 30) + 1) }
            },
            Damage("an index of the log that is a link", says: "not a regular file") { old in
                try old.replace(old.index) {
                    try old.manager.createSymbolicLink(at: $0, withDestinationURL: old.url)
                }
            },
        ]

        @Test("what is not a manifest of YYCache is refused as a whole", arguments: refused)
        func refusedWhole(_ damage: Damage) throws {
            let old = try world.fixture()
            try old.save("good", Data("good".utf8))
            try damage.make(old)
            old.close()
            let before = try world.contents(of: world.old)
            let cache = try world.open()
            let error = #expect(throws: CacheError.self) { try world.importing(cache, removesSources: true) }
            #expect(error?.code == .undecodable && error?.message.contains(damage.words) == true)
            #expect(cache.count == 0)
            #expect(try world.contents(of: world.old) == before)
        }

        @Test("a table of more than a million rows is refused", .rare)
        func tooManyRows() throws {
            let old = try world.fixture()
            try old.execute(
                """
                with recursive n(i) as (select 1 union all select i + 1 from n limit \(YYCacheManifest.mostRows + 1)) \
                insert into manifest select i, null, 1, x'00', 0, 0, null from n
                """)
            old.close()
            let cache = try world.open()
            let error = #expect(throws: CacheError.self) { try world.importing(cache) }
            #expect(error?.code == .undecodable && error?.message.contains("rows") == true && cache.count == 0)
        }

        private static let badRows: [BadRow] = [
            BadRow("a name above the folder", .invalidName) { try $0.insert(key: "'bad'", filename: "'../outside'") },
            BadRow("a path", .invalidName) { try $0.insert(key: "'bad'", filename: "'/etc/hostname'") },
            BadRow("two components", .invalidName) { try $0.insert(key: "'bad'", filename: "'folder/file'") },
            BadRow("a dot", .invalidName) { try $0.insert(key: "'bad'", filename: "'.'") },
            BadRow("two dots", .invalidName) { try $0.insert(key: "'bad'", filename: "'..'") },
            BadRow("a zero in a name", .invalidName) { old in
                try Data(count: 1).write(to: old.file("a"))
                try old.insert(key: "'bad'", filename: "'a' || char(0) || 'b'")
            },
            BadRow("a slash with an accent", .invalidName) {
                try $0.insert(key: "'bad'", filename: "'..' || '/' || char(824) || 'outside'")
            },
            BadRow("a name of bytes", .invalidName) { try $0.insert(key: "'bad'", filename: "x'61'") },
            BadRow("a name that is not UTF-8", .invalidName) {
                try $0.insert(key: "'bad'", filename: "cast(x'61ff' as text)")
            },
            BadRow("a name of 300 bytes", .missingFile) {
                try $0.insert(key: "'bad'", filename: "'\(String(repeating: "a", count: 300))'")
            },
            BadRow("no file", .missingFile) { try $0.insert(key: "'bad'", filename: "'none'") },
            BadRow("a link", .notAFile) { old in
                let outside = old.url.deletingLastPathComponent().appendingPathComponent("outside")
                try old.manager.createSymbolicLink(at: old.file("link"), withDestinationURL: outside)
                try old.insert(key: "'bad'", filename: "'link'", size: "6")
            },
            BadRow("a FIFO", .notAFile) { old in
                #expect(mkfifo(old.file("fifo").path, 0o600) == 0)
                try old.insert(key: "'bad'", filename: "'fifo'", size: "0")
            },
            BadRow("a folder", .notAFile) { old in
                try old.manager.createDirectory(at: old.file("folder"), withIntermediateDirectories: false)
                try old.insert(key: "'bad'", filename: "'folder'")
            },
            BadRow("a longer file", .wrongSize) { old in
                try Data(count: 2).write(to: old.file("f"))
                try old.insert(key: "'bad'", filename: "'f'")
            },
            BadRow("a shorter file", .wrongSize) { old in
                try Data().write(to: old.file("f"))
                try old.insert(key: "'bad'", filename: "'f'")
            },
            BadRow("a file of another's", .sharedFile) { old in
                try old.save("later", Data(count: 1), filename: "f", at: 1)
                try old.insert(key: "'bad'", filename: "'f'")
            },
            BadRow("a file with two names", .sharedFile) { old in
                try old.save("later", Data(count: 1), filename: "f", at: 1)
                try old.manager.linkItem(at: old.file("f"), to: old.file("g"))
                try old.insert(key: "'bad'", filename: "'g'")
            },
            BadRow("a file of three gigabytes", .tooLarge) { old in
                try old.makeHole(old.file("f"), size: 3 << 30)
                try old.insert(key: "'bad'", filename: "'f'", size: "\(3 << 30)")
            },
            BadRow("a value and no file", .missingFile) {
                try $0.insert(key: "'bad'", filename: "'none'", data: "x'00'")
            },
            BadRow("a negative size", .invalidRow) { try $0.insert(key: "'bad'", size: "-1", data: "x'00'") },
            BadRow("the most negative size", .invalidRow) {
                try $0.insert(key: "'bad'", size: "-9223372036854775808", data: "x'00'")
            },
            BadRow("the greatest size", .wrongSize) {
                try $0.insert(key: "'bad'", size: "9223372036854775807", data: "x'00'")
            },
            BadRow("a size in words", .invalidRow) { try $0.insert(key: "'bad'", size: "'one'", data: "x'00'") },
            BadRow("a size of many bytes, which is not read", .invalidRow) {
                try $0.insert(key: "'bad'", size: "zeroblob(67108865)", data: "x'00'")
            },
            BadRow("a name of many bytes, which is not read", .invalidName) {
                try $0.insert(key: "'bad'", filename: "zeroblob(67108865)")
            },
            BadRow("half a size", .invalidRow) { try $0.insert(key: "'bad'", size: "1.5", data: "x'00'") },
            BadRow("no size", .invalidRow) { try $0.insert(key: "'bad'", size: "NULL", data: "x'00'") },
            BadRow("a longer value", .wrongSize) { try $0.insert(key: "'bad'", data: "x'0000'") },
            BadRow("a shorter value", .wrongSize) { try $0.insert(key: "'bad'", data: "x''") },
            BadRow("no value", .invalidRow) { try $0.insert(key: "'bad'") },
            BadRow("no value, no name", .invalidRow) { try $0.insert(key: "'bad'", filename: "''", size: "0") },
            BadRow("a value of text", .invalidRow) { try $0.insert(key: "'bad'", data: "'a'") },
            BadRow("a value of numbers", .invalidRow) { try $0.insert(key: "'bad'", data: "7") },
            BadRow("a time in words", .invalidRow) { try $0.insert(key: "'bad'", data: "x'00'", modified: "'now'") },
            BadRow("no time", .invalidRow) { try $0.insert(key: "'bad'", data: "x'00'", used: "NULL") },
            BadRow("no key", .invalidKey, title: "row 2") { try $0.insert(key: "NULL", data: "x'00'") },
            BadRow("a key of bytes", .invalidKey, title: "row 2") { try $0.insert(key: "x'62'", data: "x'00'") },
            BadRow("an empty key", .invalidKey, title: "") { try $0.insert(key: "''", data: "x'00'") },
            BadRow("a zero in a key", .invalidKey, title: "a\u{0}b") {
                try $0.insert(key: "'a' || char(0) || 'b'", data: "x'00'")
            },
            BadRow("a key that is not UTF-8", .invalidKey, title: "b\u{FFFD}") {
                try $0.insert(key: "cast(x'62ff' as text)", data: "x'00'")
            },
            BadRow("a key of 64 KiB and a byte", .invalidKey, title: String(repeating: "0", count: 64 << 10)) {
                try $0.insert(key: "substr(hex(zeroblob(40000)), 1, 65537)", data: "x'00'")
            },
            BadRow("a key twice", .duplicate, title: "later") { old in
                try old.insert(key: "'later'", data: "x'01'", modified: "2")
                try old.insert(key: "'LATER'", data: "x'02'", modified: "1")
                try old.change { bytes in
                    while let found = bytes.range(of: Data("LATER".utf8)) {
                        bytes.replaceSubrange(found, with: Data("later".utf8))
                    }
                }
            },
            BadRow("a value in pages that are not there", .failed) { old in
                try old.insert(key: "'bad'", size: "100000", data: "zeroblob(100000)")
                try old.change { bytes in
                    let leaf = page(bytes, 2)
                    for cell in leaf.cells {
                        guard let next = chain(bytes, cell, pageSize(bytes)) else { continue }
                        bytes.replaceSubrange(next..<next + 4, with: [0, 0x0F, 0xFF, 0xFF])
                    }
                }
            },
        ]

        @Test("a row that YYCache would not write is skipped, and the others are imported", arguments: badRows)
        func skippedRows(_ row: BadRow) throws {
            let old = try world.fixture()
            try old.save("good", Data("good".utf8))
            try row.make(old)
            old.close()
            let before = try world.contents(of: world.old)
            let cache = try world.open()
            let report = try world.importing(cache)
            #expect(report.skipped.map(\.key) == [row.title] && report.skipped.map(\.reason) == [row.reason])
            #expect(report.imported == ["good"] || report.imported == ["good", "later"])
            #expect(cache.string(forKey: "good") == "good" && cache.count == report.imported.count)
            if row.title == "later" { #expect(cache.data(forKey: "later") == Data([1])) }
            #expect(try world.contents(of: world.old) == before)
        }

        @Test("files are not looked for where the folder of files is a link, or not there")
        func folderOfFiles() throws {
            let old = try world.fixture()
            try old.save("a", Data("secret".utf8), filename: "outside")
            try old.save("b", Data("row".utf8))
            old.close()
            let data = world.old.appendingPathComponent("data")
            try old.manager.removeItem(at: data)
            let cache = try world.open()
            #expect(world.skipped(try world.importing(cache)) == ["a": .missingFile])
            try old.manager.createSymbolicLink(at: data, withDestinationURL: world.home.url)
            let report = try world.importing(cache, removesSources: true)
            #expect(world.skipped(report) == ["a": .failed, "b": .alreadyStored])
            #expect(cache.keys() == ["b"])
        }

        @Test("a log of any bytes is no log, and one of another database changes nothing")
        func foreignLog() throws {
            let old = try world.fixture()
            try old.save("good", Data("good".utf8))
            old.close()
            let cache = try world.open()
            var generator = RunSeed.generator()
            for length in [1, 31, 32, 33, 4096, 100_000] {
                try Data(generator.bytes(length)).write(to: old.log)
                try cache.removeAll()
                #expect(try world.importing(cache).imported == ["good"])
            }
        }

        @Test("a database that was cut at any length is refused, or gives right values")
        func cut() throws {
            let (old, values) = try filled()
            let whole = try Data(contentsOf: old.manifest)
            let cache = try world.open()
            let step = max(1, whole.count / Sample.size(2000, usually: 150))
            for length in stride(from: 0, to: whole.count, by: step) {
                try whole.prefix(length).write(to: old.manifest)
                try cache.removeAll()
                for key in (try? world.importing(cache))?.imported ?? [] {
                    #expect(cache.data(forKey: key) == values[key], "\(key) after \(length) bytes")
                }
            }
        }

        @Test("flipped bytes never end the process, nor reach beyond the directory", arguments: [false, true])
        func flipped(inLog: Bool) throws {
            let (old, _) = try filled(killed: inLog)
            let file = inLog ? old.log : old.manifest
            let whole = try Data(contentsOf: file)
            let cache = try world.open()
            var generator = RunSeed.generator("\(inLog)")
            for _ in 0..<Sample.size(1000, usually: 100) {
                var bytes = whole
                // The first pages decide most.
                let end = generator.chance(50) ? min(whole.count, 8192) : whole.count
                for _ in 0..<Int.random(in: 1...8, using: &generator) {
                    bytes[Int.random(in: 0..<end, using: &generator)] ^= UInt8.random(in: 1...255, using: &generator)
                }
                try bytes.write(to: file)
                try cache.removeAll()
                do {
                    let report = try world.importing(cache)
                    #expect(cache.count == report.imported.count)
                } catch let error as CacheError {
                    #expect([.undecodable, .io].contains(error.code))
                    #expect(cache.count == 0)
                }
            }
        }

        /// A closed directory, and the value of each key.
        private func filled(killed: Bool = false) throws -> (YYCacheFixture, [String: Data]) {
            let old = try world.fixture()
            var generator = RunSeed.generator()
            var values: [String: Data] = [:]
            for number in 0..<60 {
                let value = Data(generator.bytes(number % 10 == 0 ? 9000 : 1 + number * 7))
                values["key \(number)"] = value
                try old.save("key \(number)", value, filename: number % 4 == 1 ? "file\(number)" : nil, at: number)
            }
            if killed { try old.kill() } else { old.close() }
            return (old, values)
        }
    }

    /// The format of SQLite's files, for those who damage them.
    extension YYCacheDamageTests {
        fileprivate static func pageSize(_ bytes: Data) -> Int { Int(bytes[16]) << 8 | Int(bytes[17]) }

        /// The positions of a page's head and its cells.
        fileprivate static func page(_ bytes: Data, _ number: Int) -> (offset: Int, cells: [Int]) {
            let start = (number - 1) * pageSize(bytes)
            let offset = number == 1 ? 100 : start
            guard [2, 5, 10, 13].contains(bytes[offset]) else { return (offset, []) }
            let count = Int(bytes[offset + 3]) << 8 | Int(bytes[offset + 4])
            let first = offset + (bytes[offset] < 6 ? 12 : 8)
            guard first + 2 * count <= start + pageSize(bytes) else { return (offset, []) }
            return (
                offset,
                (0..<count).map { start + (Int(bytes[first + 2 * $0]) << 8 | Int(bytes[first + 2 * $0 + 1])) }
            )
        }

        /// The position of the number of the first page that a row continues on; nil: it is whole.
        fileprivate static func chain(_ bytes: Data, _ cell: Int, _ size: Int) -> Int? {
            var position = cell
            func number() -> Int {
                var number = 0
                repeat {
                    number = number << 7 | Int(bytes[position] & 0x7F)
                    position += 1
                } while bytes[position - 1] >= 0x80
                return number
            }
            let length = number()
            _ = number()
            guard length > size - 35 else { return nil }
            let least = (size - 12) * 32 / 255 - 23
            let local = least + (length - least) % (size - 4)
            return position + (local <= size - 35 ? local : least)
        }

        /// Keeps the first quarter of the pages, as if there were no others.
        fileprivate static func keepQuarter(_ bytes: inout Data) {
            let (size, pages) = (pageSize(bytes), bytes.count / pageSize(bytes) / 4)
            bytes = bytes.prefix(pages * size)
            bytes.replaceSubrange(28..<32, with: (0..<4).map { UInt8(truncatingIfNeeded: pages >> (24 - 8 * $0)) })
        }
    }
#endif
