import Foundation
import Testing

@testable import LarderHTTP

@Suite("The policy serves caches with a store of their own")
struct PolicyTests {
    private let policy = HTTPCachePolicy()
    private let now = Date(timeIntervalSince1970: 1_767_225_600)

    private func head(_ status: Int, _ fields: HTTPField...) -> HTTPResponseHead {
        HTTPResponseHead(status: status, fields: fields, requestedAt: now, receivedAt: now)
    }

    @Test("a response is stored, is fresh, is validated and is updated, with Foundation's dates")
    func life() throws {
        let request = HTTPRequestHead(URL(string: "http://example.com/")!)
        let stored = head(200, HTTPField("Cache-Control", "max-age=60"), HTTPField("ETag", "\"a\""))
        #expect(policy.mayStore(stored, to: request))
        #expect(policy.freshnessLifetime(of: stored) == .seconds(60))
        #expect(policy.age(of: stored, at: now + 59.5) == .milliseconds(59_500))
        #expect(policy.reuse(of: stored, for: request, at: now + 59.5) == .answer)
        #expect(policy.reuse(of: stored, for: request, at: now + 60) == .validate(.stale))
        #expect(policy.reuse(of: stored, for: request, mode: .forceCache, at: now + 60) == .answer)
        let asked = policy.validation(of: stored, for: request)
        #expect(asked.fields == [HTTPField("If-None-Match", "\"a\"")])
        var news = head(304, HTTPField("Cache-Control", "max-age=90"))
        news = HTTPResponseHead(
            status: news.status, fields: news.fields, requestedAt: now + 60, receivedAt: now + 60.25)
        let updated = try #require(policy.updated(stored, by: news))
        #expect(updated.status == 200 && updated.receivedAt == now + 60.25 && updated.requestedAt == now + 60)
        #expect(policy.reuse(of: updated, for: request, at: now + 149) == .answer)
        #expect(policy.updated(stored, byHead: head(200, HTTPField("ETag", "\"b\""))) == nil)
        let post = HTTPRequestHead(request.url, method: "POST")
        #expect(policy.invalidated(by: post, status: 200, fields: []) == [request.url])
    }

    @Test("a request selects a stored response when its variant is that of the request it was stored for")
    func variants() {
        let stored = head(200, HTTPField("Vary", "Accept-Language"))
        func variant(_ language: String) -> HTTPVariant {
            let url = URL(string: "http://example.com/")!
            return HTTPVariant(
                of: stored, for: HTTPRequestHead(url, fields: [HTTPField("Accept-Language", language)]))
        }
        #expect(variant("en, de") == variant("en,DE") && variant("en") != variant("de"))
        #expect(variant("en").names == ["accept-language"])
    }

    @Test("a response is stored without its connection's fields, and answers with its age, also instead of an error")
    func answers() {
        let request = HTTPRequestHead(URL(string: "http://example.com/")!)
        let received = head(
            200, HTTPField("Connection", "X"), HTTPField("X", "1"), HTTPField("Cache-Control", "max-age=60"))
        let stored = policy.storable(received)
        #expect(stored.fields.map(\.name) == ["Cache-Control", "Date"])
        #expect(policy.answerFields(of: stored, at: now + 5.5).last == HTTPField("Age", "5"))
        #expect(policy.mayAnswer(stored, to: request, insteadOf: nil, at: now + 3600))
        #expect(!policy.mayAnswer(stored, to: request, insteadOf: 503, at: now + 3600))
    }

    @Test("lengths and dates beyond all reason do not overflow")
    func extremes() {
        var policy = policy
        policy.keepStale = .seconds(Int64.max)
        policy.staleIfUnreachable = .seconds(Int64.min)
        let stored = HTTPResponseHead(
            status: 200, fields: [HTTPField("Cache-Control", "max-age=60")], requestedAt: .distantPast,
            receivedAt: Date(timeIntervalSince1970: 1e300))
        let request = HTTPRequestHead(URL(string: "http://example.com/")!)
        for date in [Date.distantPast, .distantFuture, Date(timeIntervalSince1970: -1e300)] {
            _ = policy.age(of: stored, at: date)
            #expect(policy.reuse(of: stored, for: request, at: date) == .validate(.stale))
        }
        for time in [Int64.min, .max] {
            var metadata = stored.metadata
            for key in ["http-requested", "http-received", "http-lead"] { metadata[key] = "\(time)" }
            #expect(HTTPResponseHead(metadata: metadata).map { policy.age(of: $0, at: Date()) } != nil)
        }
    }
}
