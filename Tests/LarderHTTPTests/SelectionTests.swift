import Foundation
import LarderHTTP
import Testing

@Suite("Keys, variants and ranges select what is stored")
struct SelectionTests {
    private func variant(_ vary: String, _ lines: String...) -> HTTPVariant {
        HTTPVariant(fields(["Vary: \(vary)"]), for: fields(lines))
    }

    @Test("a variant is selected by the fields that Vary names, in any case and order")
    func names() {
        #expect(variant("Foo, bar", "foo: 1", "Bar: 2", "Other: 3") == variant("BAR,foo, Foo", "BAR: 2", "Foo: 1"))
        #expect(variant("Foo", "Foo: 1") != variant("Foo", "Foo: 2"))
        #expect(variant("Foo", "Foo: a") != variant("Foo", "Foo: A"))
    }

    @Test("a missing field is another value than an empty one")
    func missing() {
        #expect(variant("Foo") != variant("Foo", "Foo:"))
        #expect(variant("Foo, Bar", "Foo: 1") == variant("Foo, Bar", "Foo: 1", "Baz: 2"))
    }

    @Test("lines of one field are combined; a field that is not known to be a list is not parsed as one")
    func normalization() {
        #expect(variant("Foo", "Foo: 1, 2") == variant("Foo", "Foo: 1", "Foo:2"))
        for other in ["1,2", "1,, 2", "2, 1", "1, 2,"] {
            #expect(variant("Foo", "Foo: 1, 2") != variant("Foo", "Foo: \(other)"))
        }
        #expect(variant("User-Agent", "User-Agent: A (x, y)") != variant("User-Agent", "User-Agent: A (x,y)"))
        #expect(variant("Accept", "Accept: a/b , c/d") == variant("Accept", "Accept: a/b,c/d"))
    }

    @Test("case says nothing in the fields of content negotiation; weights do, and the order of languages")
    func negotiation() {
        func languages(_ value: String) -> HTTPVariant { variant("Accept-Language", "Accept-Language: \(value)") }
        #expect(languages("en, de") == languages("EN,dE") && languages("en, de") != languages("de, en"))
        #expect(languages("en;q=0.5, de") == languages("de, en;q=0.5"))
        #expect(languages("fr;q=0.1, en;q=0.5, de;q=0.5") == languages("en;q=0.5, de;q=0.5, fr;q=0.1"))
        #expect(languages("en;q=0.5, de;q=0.5") != languages("de;q=0.5, en;q=0.5"))
        #expect(
            variant("Accept-Encoding", "Accept-Encoding: gzip ;q=1, br")
                == variant("Accept-Encoding", "Accept-Encoding: br, gzip;q=1"))
        #expect(
            variant("Accept-Language", "Accept-Language: en, de")
                != variant("Accept-Language", "Accept-Language: en, de;q=0.5"))
    }

    private func key(_ url: String, _ partition: String = "") -> CacheKey? {
        URL(string: url).flatMap { CacheKey($0, partition: partition) }
    }

    @Test("URLs that mean the same have one key")
    func keys() {
        #expect(key("HTTP://Example.COM:80") == key("http://example.com/"))
        #expect(key("https://example.com:443/a#b") == key("https://example.com/a"))
        #expect(key("http://example.com/a?b") != key("http://example.com/a"))
        #expect(key("http://example.com/A") != key("http://example.com/a"))
        #expect(key("http://example.com:8080/") != key("http://example.com/"))
        #expect(key("http://[::1]:80/a")?.url == "http://[::1]/a")
    }

    @Test("an escape is the same in capital and small digits, and as an unreserved character")
    func escapes() {
        #expect(key("http://example.com/%7Ea%2fb?c=%5f") == key("http://example.com/~a%2Fb?c=_"))
        #expect(key("http://example.com/a%2Fb") != key("http://example.com/a/b"))
        #expect(key("http://example.com/%2525")?.url == "http://example.com/%2525")
        #expect(key("http://example.com:/a#")?.url == "http://example.com/a")
    }

    @Test("userinfo is no part of a key")
    func userinfo() throws {
        let found = try #require(key("http://ann:secret@example.com/a"))
        #expect(found.url == "http://example.com/a" && !found.base.contains("secret"))
    }

    @Test("partitions have keys of their own, and the tag is the URL")
    func partitions() {
        let (ann, bob) = (key("http://example.com/", "ann"), key("http://example.com/", "bob"))
        #expect(ann?.base != bob?.base && ann?.base != key("http://example.com/")?.base && ann?.url == bob?.url)
    }

    @Test("other schemes and very long URLs have no key")
    func noKey() {
        #expect(key("ftp://example.com/") == nil && key("file:///a") == nil && key("http:///a") == nil)
        #expect(key("http://example.com/" + String(repeating: "a", count: 20_000)) == nil)
    }

    @Test(
        "a range is cut from a whole of ten bytes",
        arguments: [
            ("bytes=0-1", 0..<2), ("bytes=4-", 4..<10), ("bytes=-3", 7..<10), ("Bytes=8-99", 8..<10),
            ("bytes=-99", 0..<10),
            ("bytes=9-9", 9..<10),
        ])
    func ranges(value: String, range: Range<Int>) {
        #expect(ByteRange.bytes(value, of: 10) == range)
    }

    @Test(
        "the server decides about any other range",
        arguments: [
            "bytes=0-1,3-4", "bytes=10-", "bytes=5-4", "bytes=-0", "bytes=-", "lines=0-1", "bytes", "bytes=a-b",
            "bytes=1-2-3",
        ])
    func otherRanges(value: String) {
        #expect(ByteRange.bytes(value, of: 10) == nil)
    }

    @Test("If-Range names the stored response by a strong validator")
    func ifRange() {
        let stored = response(200, "ETag: \"a\"", "Last-Modified: \(date(-10))", "Date: \(date())")
        #expect(ByteRange.matches([], stored))
        #expect(ByteRange.matches(fields(["If-Range: \"a\""]), stored))
        #expect(!ByteRange.matches(fields(["If-Range: \"b\""]), stored))
        #expect(!ByteRange.matches(fields(["If-Range: W/\"a\""]), response(200, "ETag: W/\"a\"")))
        #expect(ByteRange.matches(fields(["If-Range: \(date(-10))"]), stored))
        #expect(!ByteRange.matches(fields(["If-Range: \(date(-9))"]), stored))
        #expect(!ByteRange.matches(fields(["If-Range: \(date())"]), response(200, "Last-Modified: \(date())")))
    }

    @Test("numbers in a range may be larger than any body")
    func hugeRanges() {
        let size = 5_000_000_000
        #expect(ByteRange.bytes("bytes=-4000000000", of: size) == 1_000_000_000..<size)
        #expect(ByteRange.bytes("bytes=1-99999999999999999999", of: 10) == 1..<10)
        #expect(ByteRange.bytes("bytes=-99999999999999999999", of: 10) == 0..<10)
        #expect(ByteRange.bytes("bytes=99999999999999999999-", of: 10) == nil)
    }

    @Test("no partition can be made to look like a part of another's key")
    func craftedPartitions() throws {
        let page = "http://example.com/page"
        let plain = try #require(key(page))
        let crafted = try #require(key(page, "\(page)\nbar: y"))
        let both = variant("Foo, Bar", "Foo: x", "Bar: y\u{1F}\(page)")
        #expect(plain.variant(both) != crafted.variant(variant("Foo", "Foo: x")))
        #expect(key(page, "1:a")?.base != key(page, "a")?.base)
    }
}
