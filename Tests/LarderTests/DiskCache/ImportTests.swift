import Foundation
import LarderFiles
import LarderTestSupport
import Testing

@testable import Larder

@Suite("Coming from EGOCache: a directory is imported as it is")
struct ImportTests {
    private let home: TemporaryDirectory
    private let old: URL
    private let manager = FileManager.default
    private let now = Date(timeIntervalSince1970: 1_763_632_800)

    init() throws {
        home = try TemporaryDirectory()
        old = home.appending("EGOCache")
        try manager.createDirectory(at: old, withIntermediateDirectories: true)
    }

    private func write(
        _ rows: [String: Any], _ format: PropertyListSerialization.PropertyListFormat = .xml
    ) throws {
        let bytes = try PropertyListSerialization.data(fromPropertyList: rows, format: format, options: 0)
        try bytes.write(to: old.appendingPathComponent("EGOCache.plist"))
    }

    private func write(_ text: String, as name: String) throws {
        try Data(text.utf8).write(to: old.appendingPathComponent(name))
    }

    private func open(_ configure: (inout DiskCache.Configuration) -> Void = { _ in }) throws -> DiskCache {
        var configuration = DiskCache.Configuration()
        configuration.now = { [now] in now }
        configure(&configuration)
        return try DiskCache(directory: home.appending("cache"), configuration: configuration)
    }

    private func later(_ seconds: Double) -> Date { now.addingTimeInterval(seconds) }

    private func skipped(_ report: ImportReport) -> [String: ImportReport.Reason] {
        Dictionary(uniqueKeysWithValues: report.skipped.map { ($0.key, $0.reason) })
    }

    @Test("values and dates are imported from XML and binary lists", arguments: [true, false])
    func formats(xml: Bool) throws {
        try write(["a": later(100), "path/to/b": later(1e9), "empty": later(5)], xml ? .xml : .binary)
        try write("first", as: "a")
        try write("second", as: "path_to_b")
        try write("", as: "empty")
        let before = home.names(in: "EGOCache")
        let cache = try open()
        let report = try cache.importEGOCache(from: old)
        #expect(report.imported == ["a", "empty", "path/to/b"] && report.importedBytes == 11)
        #expect(report.skipped.isEmpty && report.description == "imported 3 entries, 11 bytes; skipped 0")
        #expect(cache.string(forKey: "a") == "first" && cache.string(forKey: "path/to/b") == "second")
        #expect(cache.data(forKey: "empty") == Data() && cache.count == 3)
        #expect(cache.entry(forKey: "a")?.expiresAt == later(100))
        #expect(home.names(in: "EGOCache") == before, "the sources are kept")
        try cache.close()
        #expect(try open().verify().checked == 3)
    }

    @Test("fractions of a second are kept, and so is a date in the distant future")
    func dates() throws {
        try write(["fraction": later(0.25), "future": Date.distantFuture], .binary)
        try write("v", as: "fraction")
        try write("v", as: "future")
        let cache = try open()
        try cache.importEGOCache(from: old)
        #expect(cache.entry(forKey: "fraction")?.expiresAt == later(0.25))
        #expect(cache.entry(forKey: "future")?.expiresAt == Date.distantFuture)
    }

    @Test("entries that are expired, without a date or without a file are skipped, with the reason")
    func skipping() throws {
        try write([
            "expired": later(-1), "now": now, "string": "tomorrow", "number": 5, "list": [later(5)],
            "missing": later(5),
            "good": later(5), String(repeating: "long", count: 100): later(5),
        ])
        for name in ["expired", "now", "string", "number", "list", "good"] { try write("v", as: name) }
        let report = try open().importEGOCache(from: old)
        #expect(report.imported == ["good"])
        let expected: [String: ImportReport.Reason] = [
            "expired": .expired, "now": .expired, "string": .notADate, "number": .notADate, "list": .notADate,
            "missing": .missingFile, String(repeating: "long", count: 100): .missingFile,
        ]
        #expect(skipped(report) == expected)
        #expect(report.description.contains("\n  \"missing\": There is no such file") == false)
        #expect(report.description.contains("\n  \"missing\": its file is missing"))
        #expect(report.description.hasPrefix("imported 1 entries, 1 bytes; skipped 7\n"))
    }

    @Test("keys that are not file names, or are the list's own name, are refused")
    func names() throws {
        try write(
            ["": later(5), ".": later(5), "..": later(5), "EGOCache.plist": later(5), "a\u{0}b": later(5)], .binary)
        try write("outside", as: "../outside")
        let report = try open().importEGOCache(from: old)
        #expect(report.imported == [] && Set(skipped(report).values) == [.invalidName] && report.skipped.count == 5)
    }

    @Test("a slash with an accent, a slash to the file system, does not lead outside the directory")
    func accents() throws {
        try write(["../\u{338}secret": later(5), "a/\u{338}b": later(5)], .binary)
        try write("outside", as: "../\u{338}secret")
        try manager.createDirectory(at: old.appendingPathComponent("a"), withIntermediateDirectories: true)
        try write("inside", as: "a/\u{338}b")
        try write("file", as: "a_\u{338}b")
        let cache = try open()
        let report = try cache.importEGOCache(from: old)
        #expect(report.imported == ["a/\u{338}b"] && skipped(report) == ["../\u{338}secret": .missingFile])
        #expect(cache.string(forKey: "a/\u{338}b") == "file")
    }

    @Test("of keys that share a file, the one with the latest date gets it")
    func collisions() throws {
        try write(["a/b": later(10), "a_b": later(20), "x/y": later(30), "x_y": later(5), "x/y/": later(7)])
        try write("ab", as: "a_b")
        try write("xy", as: "x_y")
        let cache = try open()
        let report = try cache.importEGOCache(from: old)
        #expect(report.imported == ["a_b", "x/y"])
        #expect(skipped(report) == ["a/b": .sharedFile, "x_y": .sharedFile, "x/y/": .missingFile])
        #expect(report.skipped.first?.detail == "\"a_b\"")
        #expect(cache.string(forKey: "a_b") == "ab" && cache.string(forKey: "a/b") == nil)
    }

    @Test("keys share a file when the file system treats two names as one")
    func oneFile() throws {
        try write(["Key": later(10), "key": later(20)])
        try write("v", as: "Key")
        try manager.linkItem(at: old.appendingPathComponent("Key"), to: old.appendingPathComponent("key"))
        let report = try open().importEGOCache(from: old)
        #expect(report.imported == ["key"] && skipped(report) == ["Key": .sharedFile])
    }

    @Test("links, directories and pipes are neither followed nor opened")
    func hostileFiles() throws {
        try write(["link": later(5), "folder": later(5), "pipe": later(5), "good": later(5)])
        try write("secret", as: "../secret")
        try manager.createSymbolicLink(
            at: old.appendingPathComponent("link"), withDestinationURL: home.appending("secret"))
        try manager.createDirectory(at: old.appendingPathComponent("folder"), withIntermediateDirectories: true)
        #expect(mkfifo(old.appendingPathComponent("pipe").path, 0o600) == 0)
        try write("v", as: "good")
        let report = try open().importEGOCache(from: old)
        #expect(report.imported == ["good"])
        #expect(skipped(report) == ["link": .notAFile, "folder": .notAFile, "pipe": .notAFile])
    }

    @Test("a list that is invalid, a link, truncated, or built to crash a reader is refused")
    func hostileLists() throws {
        let cache = try open()
        #expect(code { try cache.importEGOCache(from: old) } == .notFound)
        #expect(code { try cache.importEGOCache(from: home.appending("none")) } == .notFound)
        let web = try #require(URL(string: "https://example.com"))
        #expect(code { try cache.importEGOCache(from: web) } == .invalidName)
        try write(["a": later(5)], .binary)
        let good = try Data(contentsOf: old.appendingPathComponent("EGOCache.plist"))
        let deep = "<plist><dict><key>a</key>" + String(repeating: "<array>", count: 100_000)
        let hostile = [Data(), data("hello"), good.prefix(30), data(deep), data("<plist><array/></plist>")]
        for bytes in hostile {
            try bytes.write(to: old.appendingPathComponent("EGOCache.plist"))
            #expect(code { try cache.importEGOCache(from: old) } == .undecodable)
        }
        for position in good.indices {
            var flipped = good
            flipped[position] ^= 0xFF
            try flipped.write(to: old.appendingPathComponent("EGOCache.plist"))
            _ = try? cache.importEGOCache(from: old)
        }
        try manager.removeItem(at: old.appendingPathComponent("EGOCache.plist"))
        try good.write(to: home.appending("list"))
        try manager.createSymbolicLink(
            at: old.appendingPathComponent("EGOCache.plist"), withDestinationURL: home.appending("list"))
        #expect(code { try cache.importEGOCache(from: old) } == .undecodable)
        #expect(cache.count == 0)
    }

    @Test("importing again leaves later values alone")
    func again() throws {
        try write(["a": later(100), "b": later(100)])
        try write("old a", as: "a")
        try write("old b", as: "b")
        let cache = try open()
        try cache.setString("newer", forKey: "a")
        let first = try cache.importEGOCache(from: old)
        #expect(first.imported == ["b"] && skipped(first) == ["a": .alreadyStored])
        let second = try cache.importEGOCache(from: old)
        #expect(second.imported == [] && skipped(second) == ["a": .alreadyStored, "b": .alreadyStored])
        #expect(cache.string(forKey: "a") == "newer" && cache.string(forKey: "b") == "old b")
        #expect(cache.statistics.stores == 2)
    }

    @Test("values that do not fit are skipped with the error, and the import continues", arguments: [600, 600 << 10])
    func tooLarge(count: Int) throws {
        try write(["large": later(5), "small": later(5)])
        try Data(count: count).write(to: old.appendingPathComponent("large"))
        try write("v", as: "small")
        let report = try open { $0.sizeLimit = 500 }.importEGOCache(from: old)
        #expect(report.imported == ["small"] && skipped(report) == ["large": .failed])
        #expect(report.skipped[0].detail?.contains("tooLarge") == true)
    }

    @Test("a closed cache throws")
    func closed() throws {
        try write(["a": later(5)])
        try write("v", as: "a")
        let cache = try open()
        try cache.close()
        #expect(code { try cache.importEGOCache(from: old) } == .closed)
    }

    #if FoundationExtras || canImport(Darwin)
        @Test("objects and property lists written by EGOCache are read by their kind")
        func kinds() throws {
            try write(["plist": later(5), "object": later(5)])
            try PropertyListSerialization.data(fromPropertyList: ["a": 1], format: .binary, options: 0)
                .write(to: old.appendingPathComponent("plist"))
            try NSKeyedArchiver.archivedData(withRootObject: NSString("hello"), requiringSecureCoding: false)
                .write(to: old.appendingPathComponent("object"))
            let cache = try open()
            try cache.importEGOCache(from: old)
            #expect(cache.propertyList(forKey: "plist") as? [String: Int] == ["a": 1])
            #expect(cache.archivedObject(NSString.self, forKey: "object") == NSString("hello"))
        }
    #endif
}
