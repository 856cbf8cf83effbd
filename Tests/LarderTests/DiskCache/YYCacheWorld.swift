#if SQLite
    import Foundation
    import LarderTestSupport
    import Testing

    @testable import Larder

    /// A home with an old directory, a folder for temporary files, and something outside that nobody may touch.
    struct YYCacheWorld {
        let home: TemporaryDirectory
        let now = Date(timeIntervalSince1970: 1_763_632_800)

        var old: URL { home.appending("old") }
        var temporary: URL { home.appending("temporary") }
        var outside: URL { home.appending("outside") }

        var configuration: DiskCache.Configuration {
            var configuration = DiskCache.Configuration()
            configuration.now = { [now] in now }
            return configuration
        }

        init() throws {
            home = try TemporaryDirectory()
            for folder in [old, temporary] {
                try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            }
            try Data("secret".utf8).write(to: outside)
        }

        func fixture(schema: String = YYCacheFixture.schema) throws -> YYCacheFixture {
            try YYCacheFixture(old, schema: schema)
        }

        func open(_ configure: (inout DiskCache.Configuration) -> Void = { _ in }) throws -> DiskCache {
            var configuration = configuration
            configure(&configuration)
            return try DiskCache(directory: home.appending("cache"), configuration: configuration)
        }

        /// Imports the old directory, and checks that nothing is left among the temporary files, nor changed outside.
        @discardableResult
        func importing(
            _ cache: DiskCache, ttl: TimeToLive = .days(1), removesSources: Bool = false
        ) throws -> ImportReport {
            defer {
                #expect(names("temporary") == [])
                #expect((try? Data(contentsOf: outside)) == Data("secret".utf8))
            }
            return try YYCacheCopy.$parent.withValue(temporary.path) {
                try cache.importYYCache(from: old, ttl: ttl, removesSources: removesSources)
            }
        }

        func skipped(_ report: ImportReport) -> [String: ImportReport.Reason] {
            Dictionary(report.skipped.map { ($0.key, $0.reason) }) { first, _ in first }
        }

        func code(_ body: () throws -> ImportReport) -> CacheError.Code? {
            do {
                _ = try body()
                return nil
            } catch {
                return (error as? CacheError)?.code
            }
        }

        func names(_ path: String) -> [String] { home.names(in: path) }

        func mode(_ url: URL) -> Int? {
            (try? FileManager.default.attributesOfItem(atPath: url.path))?[.posixPermissions] as? Int
        }

        /// Everything below a folder: the bytes of files, and the kind of anything else.
        func contents(of folder: URL) throws -> [String: Data] {
            var contents: [String: Data] = [:]
            for case let name as String in FileManager.default.enumerator(atPath: folder.path) ?? .init() {
                let path = folder.appendingPathComponent(name).path
                let attributes = try FileManager.default.attributesOfItem(atPath: path)
                let kind = attributes[.type] as? FileAttributeType
                let isShort = (attributes[.size] as? Int ?? 0) < 16 << 20
                contents[name] =
                    kind == .typeRegular && isShort
                    ? try Data(contentsOf: URL(fileURLWithPath: path)) : Data("\(kind?.rawValue ?? "")".utf8)
            }
            return contents
        }
    }
#endif
