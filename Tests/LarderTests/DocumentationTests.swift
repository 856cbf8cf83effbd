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

    @Test(
        "no snippet is missing here",
        arguments: [
            "README.md", "CONTRIBUTING.md", "Sources/Larder/Larder.docc/Larder.md",
            "Sources/Larder/Larder.docc/UnderstandingTheDirectory.md",
        ])
    func snippets(path: String) throws {
        let here = lines(try Self.text("Tests/LarderTests/DocumentationTests.swift")).joined(separator: "\n")
        for snippet in try Self.text(path).components(separatedBy: "```swift\n").dropFirst() {
            let code = lines(snippet.components(separatedBy: "```")[0])
            #expect(code.count > 2 && here.contains(code.joined(separator: "\n")), "\(code.first ?? "")")
        }
    }

    @Test("every suite that the README names as proof exists")
    func proofs() throws {
        let readme = try Self.text("README.md")
        let named = Set(readme.matches(of: /`(\w+Tests)`/).map { String($0.1) })
        #expect(named.count >= 9)
        let tests = Self.package.appendingPathComponent("Tests/LarderTests")
        let files = FileManager.default.enumerator(atPath: tests.path)?.compactMap { $0 as? String } ?? []
        for suite in named { #expect(files.contains { $0.hasSuffix("/\(suite).swift") }, "\(suite)") }
    }
}
