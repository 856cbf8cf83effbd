import Foundation
import Larder
import LarderTestSupport
import Testing

/// Every Swift snippet of README and articles stands here too, where it is compiled and run.
@Suite("The documentation is true")
struct DocumentationTests {
    private struct User: Codable, Equatable {
        var name = "Ann"
    }

    @Test("the first lines of the README do what they say")
    func firstLines() throws {
        let bytes = Data("bytes".utf8)
        let url = try #require(URL(string: "https://example.com/\(UUID().uuidString)"))
        let user = User()
        let etag = "\"abc\""
        let disk = try DiskCache(name: "downloads")  // <Caches>/downloads, one day by default
        try disk.setData(bytes, forKey: url.absoluteString)  // on disk when it returns
        let again = disk.data(forKey: url.absoluteString)  // nil for a miss, never stale, never damaged

        try disk.setValue(user, forKey: "user/42", ttl: .hours(1), metadata: ["etag": etag])
        let cached = disk.value(User.self, forKey: "user/42")
        let version = disk.entry(forKey: "user/42")?.metadata["etag"]
        #expect(again == bytes && cached == user && version == etag)
        try disk.removeAll()
        try disk.close()
    }

    @Test("the settings and calls of the README do what they say")
    func howToUse() throws {
        let home = try TemporaryDirectory()
        let folder = home.appending("cache")
        let midnight = Date(timeIntervalSinceNow: 1000)
        var configuration = DiskCache.Configuration()
        configuration.defaultTTL = .hours(6)  // one day unless you say so
        configuration.slidingExpiry = false  // true: reading begins a life again
        configuration.onEvent = { event in print(event.kind, event.keys, event.error?.description ?? "") }

        let disk = try DiskCache(directory: folder, configuration: configuration)
        try disk.setString("hello", forKey: "greeting", ttl: .until(midnight))
        try disk.setString("constant", forKey: "pi", ttl: .forever)
        try disk.setTimeToLive(.minutes(5), forKey: "greeting")  // renews the life, does not rewrite the value
        if disk.hasValue(forKey: "greeting") { try disk.removeValue(forKey: "greeting") }
        try disk.removeAll { removed, total in print("\(removed) of \(total)") }
        try disk.close()  // optional: makes the next opening quicker
        #expect(disk.count == 0)
    }

    @Test("the overview of the articles does what it says")
    func overview() throws {
        let bytes = Data("bytes".utf8)
        let url = try #require(URL(string: "https://example.com/\(UUID().uuidString)"))
        let disk = try DiskCache(name: "downloads")
        try disk.setData(bytes, forKey: url.absoluteString)
        let again = disk.data(forKey: url.absoluteString)
        #expect(again == bytes)
        try disk.removeValue(forKey: url.absoluteString)
        try disk.close()
    }

    @Test("the ways to open a cache")
    func opening() throws {
        let home = try TemporaryDirectory()
        let folder = home.appending("cache")
        let named = try DiskCache(name: "downloads")  // <Caches>/downloads
        let placed = try DiskCache(directory: folder)  // made when it is missing
        let program = try DiskCache.shared  // <Caches>/<bundle id, or program>/Larder
        #expect(named.directory != placed.directory && placed.directory != program.directory)
        try named.close()
    }

    @Test("every kind of value is stored and read as the articles say")
    func kinds() throws {
        let home = try TemporaryDirectory()
        let disk = try DiskCache(directory: home.appending("cache"))
        let film = home.appending("film")
        let target = home.appending("target")
        try Data("film".utf8).write(to: film)
        func store(bytes: Data, user: User) throws {
            try disk.setData(bytes, forKey: "bytes")
            try disk.setString("hello", forKey: "greeting")
            try disk.setValue(user, forKey: "user")  // Codable, as JSON
            try disk.setPropertyList(["a": [1, 2]], forKey: "list")  // binary
            try disk.setArchivedObject(NSUUID(), forKey: "object")  // NSSecureCoding
            try disk.copyFile(at: film, forKey: "film")  // cloned where the disk can
        }
        try store(bytes: Data("bytes".utf8), user: User())

        let bytes = disk.data(forKey: "bytes")
        let greeting = disk.string(forKey: "greeting")
        let user = disk.value(User.self, forKey: "user")
        let list = disk.propertyList(forKey: "list") as? [String: [Int]]
        let object = disk.archivedObject(NSUUID.self, forKey: "object")
        let isExported = try disk.exportFile(forKey: "film", to: target)
        #expect(bytes == Data("bytes".utf8) && greeting == "hello" && user == User() && list == ["a": [1, 2]])
        #expect(object != nil && isExported)
        #expect(try Data(contentsOf: target) == Data("film".utf8))

        let page = Data("page".utf8)
        let etag = "x"
        try disk.setData(page, forKey: "page", ttl: .hours(1), metadata: ["etag": etag])
        let version = disk.entry(forKey: "page")?.metadata["etag"]
        #expect(version == "x")
        var configuration = DiskCache.Configuration()
        configuration.onEvent = { event in print(event.kind, event.keys, event.error?.description ?? "") }
        print(disk.statistics.hits, disk.statistics.evictions.total)
        print(try disk.verify())
        #expect(disk.statistics.hits == 6)
    }

    @Test("lives are as the articles say")
    func lives() throws {
        let home = try TemporaryDirectory()
        let disk = try DiskCache(directory: home.appending("cache"))
        let midnight = Date(timeIntervalSinceNow: 1000)
        try disk.setString("v", forKey: "f")
        try disk.setString("v", forKey: "a")  // the configured life: one day
        try disk.setString("v", forKey: "b", ttl: .minutes(10))
        try disk.setString("v", forKey: "c", ttl: .until(midnight))
        try disk.setString("v", forKey: "d", ttl: .forever)
        try disk.setString("v", forKey: "e", ttl: TimeToLive(.seconds(1.5)))
        try disk.setString("v", forKey: "f", ttl: .seconds(0))  // do not keep: removes "f"
        #expect(Set(disk.keys()).isSuperset(of: ["a", "b", "c", "d"]) && !disk.hasValue(forKey: "f"))
        let isThere = try disk.setTimeToLive(.hours(1), forKey: "page")
        #expect(!isThere)
    }

    @Test("limits and trims are as the articles say")
    func limits() throws {
        let home = try TemporaryDirectory()
        let folder = home.appending("cache")
        var configuration = DiskCache.Configuration()
        configuration.countLimit = 10_000  // entries
        configuration.sizeLimit = 500 << 20  // payload bytes
        configuration.ageLimit = .seconds(30 * 86_400)  // since the last use
        configuration.minimumFreeSpace = 1 << 30  // left on the disk
        let disk = try DiskCache(directory: folder, configuration: configuration)

        disk.trim(toCount: 1_000)
        disk.trim(toSize: 100 << 20)
        disk.trim(toAge: .seconds(7 * 86_400))
        disk.trim(toFreeSpace: 2 << 30)
        #expect(disk.count == 0)
        try disk.close()
        configuration.durability = .powerSafe
        let safe = try DiskCache(directory: folder, configuration: configuration)
        try safe.setString("v", forKey: "k")
        #expect(safe.string(forKey: "k") == "v")
    }

    @Test("the further calls of the README do what they say")
    func further() throws {
        let home = try TemporaryDirectory()
        let film = home.appending("film")
        let target = home.appending("target")
        let oldDirectory = home.url
        try Data("film".utf8).write(to: film)
        try Data("<plist><dict/></plist>".utf8).write(to: home.appending("EGOCache.plist"))
        let disk = try DiskCache(directory: home.appending("cache"))
        var configuration = DiskCache.Configuration()
        configuration.sizeLimit = 500 << 20  // bytes; the least recently used go first
        configuration.minimumFreeSpace = 1 << 30  // gives up what is lacking, once
        try disk.copyFile(at: film, forKey: "film")  // cloned where the file system can
        let isExported = try disk.exportFile(forKey: "film", to: target)
        print(try disk.importEGOCache(from: oldDirectory))  // what was imported, what was skipped and why
        #expect(isExported && disk.count == 1)
    }

    @Test("an EGOCache directory is moved over as the article says")
    func moving() throws {
        let home = try TemporaryDirectory()
        let oldDirectory = home.url
        let list = try PropertyListSerialization.data(
            fromPropertyList: ["k": Date(timeIntervalSinceNow: 1000)], format: .xml, options: 0)
        try list.write(to: home.appending("EGOCache.plist"))
        try Data("v".utf8).write(to: home.appending("k"))
        let disk = try DiskCache(name: "MyCache")
        let report = try disk.importEGOCache(from: oldDirectory)
        print(report)  // what was imported, what was skipped and why
        #expect(report.imported == ["k"] && disk.string(forKey: "k") == "v")
        try disk.removeAll()
        try disk.close()
    }

    private static let package = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: package.appendingPathComponent(path), encoding: .utf8)
    }

    private func lines(_ text: some StringProtocol) -> [String] {
        text.split(separator: "\n")
            .map { $0.split(separator: " ").joined(separator: " ") }
            .filter { !$0.isEmpty && $0 != "import Larder" }
    }

    private static let articles = [
        "Larder", "GettingStarted", "ChoosingALifetime", "UnderstandingTheDirectory", "SurvivingCrashes", "Limits",
        "ComingFromEGOCache", "ComingFromYYCache",
    ].map { "Sources/Larder/Larder.docc/\($0).md" }

    @Test("no article is missing here")
    func allArticles() throws {
        let catalog = Self.package.appendingPathComponent("Sources/Larder/Larder.docc")
        let found = try FileManager.default.contentsOfDirectory(atPath: catalog.path).filter { $0.hasSuffix(".md") }
        #expect(Set(found.map { "Sources/Larder/Larder.docc/\($0)" }) == Set(Self.articles))
    }

    @Test("no snippet is missing here", arguments: ["README.md", "CONTRIBUTING.md"] + articles)
    func snippets(path: String) throws {
        let here = lines(try Self.text("Tests/LarderTests/DocumentationTests.swift")).joined(separator: "\n")
        for snippet in try Self.text(path).components(separatedBy: "```swift\n").dropFirst() {
            let code = lines(snippet.components(separatedBy: "```")[0])
            #expect(!code.isEmpty && here.contains(code.joined(separator: "\n")), "\(code.first ?? "")")
        }
    }

    private func testFiles() -> [String: String] {
        let tests = Self.package.appendingPathComponent("Tests/LarderTests")
        let files = FileManager.default.enumerator(atPath: tests.path)?.compactMap { $0 as? String } ?? []
        let pairs = files.filter { $0.hasSuffix("Tests.swift") }.compactMap { file in
            (try? Self.text("Tests/LarderTests/" + file)).map {
                (file.split(separator: "/").last?.dropLast(6).description ?? "", $0)
            }
        }
        return Dictionary(pairs) { first, _ in first }
    }

    @Test("every suite that is named as proof exists", arguments: ["README.md", "CONTRIBUTING.md"] + articles)
    func proofs(path: String) throws {
        let files = testFiles()
        #expect(files.count > 20)
        for match in try Self.text(path).matches(of: /`(\w+Tests)(?:\/(\w+))?`/) {
            let text = files["\(match.1)"]
            #expect(text != nil, "\(match.1)")
            if let name = match.2 { #expect(text?.contains("func \(name)(") == true, "\(match.0)") }
        }
    }

    @Test("every row of the tables for those who come from elsewhere names its test", arguments: ["EGO", "YY"])
    func rows(ancestor: String) throws {
        let text = try Self.text("Sources/Larder/Larder.docc/ComingFrom\(ancestor)Cache.md")
        let rows = text.split(separator: "\n").filter { $0.hasPrefix("| ") }.dropFirst()
        #expect(rows.count > 17)
        for row in rows where !row.contains("not yet") && !row.contains("workflow") {
            #expect(row.contains(/Tests\/\w+`[^|]*\|$/), "\(row)")
        }
    }
}
