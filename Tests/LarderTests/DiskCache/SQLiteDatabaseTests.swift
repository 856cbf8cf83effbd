#if SQLite
    import Foundation
    import LarderTestSupport
    import Testing

    @testable import Larder

    @Suite("SQLite reads what somebody else wrote, and does nothing else")
    struct SQLiteDatabaseTests {
        private let world: YYCacheWorld
        private let path: String

        init() throws {
            world = try YYCacheWorld()
            let old = try world.fixture()
            try old.execute("create view v as select * from manifest")
            try old.save("short", Data(count: 10))
            try old.save("long", Data(count: 20_000))
            old.close()
            path = old.manifest.path
        }

        private func code(_ text: String, _ database: SQLiteDatabase) -> String? {
            do throws(SQLiteFailure) {
                let statement = try database.prepare(text)
                while try statement.step() {}
                return nil
            } catch {
                return error.reason
            }
        }

        @Test("a statement without end is ended, and every later one")
        func budget() throws {
            let database = try SQLiteDatabase(path: path, largestValue: 1 << 20, mostSteps: 1_000_000)
            #expect(code("select key from manifest", database) == nil)
            let endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"
            #expect(code(endless, database) == "interrupted")
            #expect(code(endless, database) == "interrupted")
        }

        @Test(
            "nothing is written, attached or loaded, and no view is used",
            arguments: [
                "delete from manifest", "insert into manifest (key) values ('a')", "drop table manifest",
                "attach 'file' as other", "pragma writable_schema = on; update sqlite_master set sql = ''",
                "update sqlite_master set sql = ''", "select load_extension('file')", "select * from v",
            ])
        func reading(_ text: String) throws {
            let database = try SQLiteDatabase(path: path, largestValue: 1 << 20)
            for part in text.split(separator: ";").dropLast() { _ = code(String(part), database) }
            #expect(code(String(text.split(separator: ";").last ?? ""), database) != nil)
            #expect(code("select key from manifest", database) == nil)
        }

        @Test("a longer value is a failure, and its length is not")
        func lengths() throws {
            let database = try SQLiteDatabase(path: path, largestValue: 1000)
            #expect(code("select inline_data from manifest where key = 'short'", database) == nil)
            #expect(code("select inline_data from manifest where key = 'long'", database) == "string or blob too big")
            // Where the value does not fit on a page, as one of 64 MiB.
            #expect(code("select length(inline_data) from manifest", database) == nil)
        }

        @Test("a file that is missing is not created")
        func missing() throws {
            let none = world.home.appending("none").path
            let failure = #expect(throws: SQLiteFailure.self) { try SQLiteDatabase(path: none, largestValue: 1000) }
            #expect(failure?.isOfSystem == true && !FileManager.default.fileExists(atPath: none))
        }
    }
#endif
