import Foundation
import LarderHTTP
import Testing

@Suite("The policy decides when the server is asked")
struct ReuseTests {
    private let policy = HTTPCachePolicy()
    private let url = URL(string: "http://example.com/")!

    /// The decision about a request, `seconds` after the response was made.
    private func reuse(
        _ response: HTTPResponseHead, at seconds: Double, _ request: String..., mode: HTTPCacheMode = .default
    ) -> HTTPCachePolicy.Reuse {
        policy.reuse(of: response, for: HTTPRequestHead(url, fields: fields(request)), mode: mode, at: after(seconds))
    }

    private let minute = response(200, "Cache-Control: max-age=60", "ETag: \"a\"")

    @Test("a fresh response is the answer, a stale one is validated")
    func fresh() {
        #expect(reuse(minute, at: 59) == .answer)
        #expect(reuse(minute, at: 60) == .validate(.stale))
    }

    @Test("no-cache wants a validation each time, with a list of fields only for these")
    func noCache() {
        #expect(reuse(response(200, "Cache-Control: max-age=60, no-cache"), at: 1) == .validate(.request))
        #expect(reuse(response(200, "Cache-Control: max-age=60, no-cache=\"Set-Cookie\""), at: 1) == .answer)
        #expect(
            reuse(response(200, "Cache-Control: no-cache=\"a\", no-cache, max-age=60"), at: 1) == .validate(.request))
        #expect(reuse(response(200, "Cache-Control: no-cache=\"\", max-age=60"), at: 1) == .validate(.request))
    }

    @Test("a request limits the age of its answer")
    func requestMaxAge() {
        #expect(reuse(minute, at: 10, "Cache-Control: max-age=10") == .answer)
        #expect(reuse(minute, at: 10.5, "Cache-Control: max-age=10") == .validate(.request))
        #expect(reuse(minute, at: 1, "Cache-Control: max-age=0") == .validate(.request))
        #expect(reuse(minute, at: 1, "Cache-Control: max-age=x") == .validate(.request))
        #expect(reuse(minute, at: 40, "Cache-Control: min-fresh=20") == .answer)
        #expect(reuse(minute, at: 41, "Cache-Control: min-fresh=20") == .validate(.request))
        #expect(reuse(minute, at: 1, "Cache-Control: no-cache") == .validate(.request))
    }

    @Test("Pragma counts as no-cache without Cache-Control only")
    func pragma() {
        #expect(reuse(minute, at: 1, "Pragma: no-cache") == .validate(.request))
        #expect(reuse(minute, at: 1, "Pragma: no-cache", "Cache-Control: foo") == .answer)
        #expect(reuse(response(200, "Cache-Control: max-age=60", "Pragma: no-cache"), at: 1) == .answer)
    }

    @Test("max-stale accepts a stale response, unless that forbids it")
    func maxStale() {
        #expect(reuse(minute, at: 70, "Cache-Control: max-stale=10") == .answer)
        #expect(reuse(minute, at: 71, "Cache-Control: max-stale=10") == .validate(.stale))
        #expect(reuse(minute, at: 100_000, "Cache-Control: max-stale") == .answer)
        #expect(reuse(minute, at: 70, "Cache-Control: max-stale=x") == .validate(.stale))
        let strict = response(200, "Cache-Control: max-age=60, must-revalidate")
        #expect(reuse(strict, at: 61, "Cache-Control: max-stale") == .validate(.stale))
    }

    @Test("stale-while-revalidate answers within its window, unless the request or must-revalidate objects")
    func staleWhileRevalidate() {
        let head = response(200, "Cache-Control: max-age=60, stale-while-revalidate=30")
        #expect(reuse(head, at: 90) == .answerWhileRevalidating)
        #expect(reuse(head, at: 91) == .validate(.stale))
        #expect(reuse(head, at: 70, "Cache-Control: max-age=100") == .validate(.stale))
        let strict = response(200, "Cache-Control: max-age=60, stale-while-revalidate=30, must-revalidate")
        #expect(reuse(strict, at: 61) == .validate(.stale))
    }

    @Test("a reload does not validate an immutable response while it is fresh")
    func immutable() {
        let head = response(200, "Cache-Control: max-age=60, immutable")
        #expect(reuse(head, at: 1, mode: .noCache) == .answer)
        #expect(reuse(head, at: 1, "Cache-Control: max-age=0") == .answer)
        #expect(reuse(head, at: 1, "Cache-Control: no-cache") == .validate(.request))
        #expect(reuse(head, at: 61) == .validate(.stale))
        #expect(reuse(minute, at: 1, mode: .noCache) == .validate(.request))
    }

    @Test(
        "the modes of Fetch accept stale responses that do not forbid it",
        arguments: [.forceCache, .onlyIfCached] as [HTTPCacheMode])
    func modes(mode: HTTPCacheMode) {
        #expect(reuse(minute, at: 100_000, mode: mode) == .answer)
        let strict = response(200, "Cache-Control: max-age=60, must-revalidate")
        #expect(reuse(strict, at: 59, mode: mode) == .answer)
        #expect(reuse(strict, at: 60, mode: mode) == .validate(.stale))
    }

    @Test("stale-if-error answers instead of an outage of the server, within its window")
    func staleIfError() {
        let head = response(200, "Cache-Control: max-age=60, stale-if-error=30")
        let plain = HTTPRequestHead(url)
        func answers(_ head: HTTPResponseHead, _ status: Int, _ request: HTTPRequestHead, at seconds: Double) -> Bool {
            policy.mayAnswer(head, to: request, insteadOf: status, mode: .default, at: after(seconds))
        }
        #expect([500, 502, 503, 504].allSatisfy { answers(head, $0, plain, at: 90) })
        #expect(![200, 404, 501].contains { answers(head, $0, plain, at: 70) })
        #expect(!answers(head, 503, plain, at: 91))
        #expect(!answers(minute, 503, plain, at: 70))
        let lenient = HTTPRequestHead(url, fields: fields(["Cache-Control: stale-if-error=30"]))
        #expect(answers(minute, 503, lenient, at: 90))
        let strict = response(200, "Cache-Control: max-age=60, stale-if-error=30, must-revalidate")
        #expect(!answers(strict, 503, plain, at: 70))
    }

    @Test("a stale response is the answer when the server cannot be reached, for a week, unless someone objects")
    func disconnected() {
        func answers(_ head: HTTPResponseHead, _ request: String..., at seconds: Double) -> Bool {
            let request = HTTPRequestHead(url, fields: fields(request))
            return policy.mayAnswer(head, to: request, insteadOf: nil, mode: .default, at: after(seconds))
        }
        #expect(answers(minute, at: 60 + 7 * 86_400))
        #expect(!answers(minute, at: 61 + 7 * 86_400))
        #expect(!answers(response(200, "Cache-Control: max-age=60, must-revalidate"), at: 61))
        #expect(!answers(response(200, "Cache-Control: no-cache", "ETag: \"a\""), at: 1))
        #expect(!answers(minute, "Cache-Control: no-cache", at: 61))
        #expect(!answers(minute, "Cache-Control: max-age=5", at: 61))
    }

    @Test("a request that limits the age or staleness of its answer gets no older one because of an outage")
    func limitedAge() {
        let head = response(200, "Cache-Control: max-age=60, stale-if-error=600, stale-while-revalidate=600")
        func answers(_ line: String, at seconds: Double, status: Int?) -> Bool {
            let request = HTTPRequestHead(url, fields: fields([line]))
            return policy.mayAnswer(head, to: request, insteadOf: status, mode: .default, at: after(seconds))
        }
        for status in [503, nil] {
            for line in ["no-cache", "max-age=0", "max-age=5", "min-fresh=5", "no-cache, stale-if-error=600"] {
                #expect(!answers("Cache-Control: \(line)", at: 70, status: status), "\(line)")
                #expect(!answers("Cache-Control: \(line)", at: 30, status: status), "\(line)")
            }
            #expect(!answers("Pragma: no-cache", at: 30, status: status))
            #expect(answers("Cache-Control: max-stale=10", at: 70, status: status))
            #expect(!answers("Cache-Control: max-stale=10", at: 71, status: status))
            #expect(!answers("Cache-Control: max-stale=x", at: 61, status: status))
            #expect(answers("Cache-Control: max-stale", at: 600, status: status))
            // Its own window is for that (RFC 5861, section 4).
            #expect(answers("Cache-Control: max-age=5, stale-if-error=100", at: 160, status: status))
            #expect(answers("Cache-Control: max-age=5, stale-if-error=100", at: 30, status: status))
            #expect(answers("Cache-Control: max-stale=10, stale-if-error=100", at: 160, status: status))
            #expect(!answers("Cache-Control: max-stale=10, stale-if-error=100", at: 161, status: status))
        }
        #expect(reuse(head, at: 70, "Cache-Control: max-stale=10") == .answer)
        #expect(reuse(head, at: 71, "Cache-Control: max-stale=10") == .validate(.stale))
        #expect(reuse(head, at: 71, "Cache-Control: max-stale") == .answer)
    }

    @Test("without a time for unreachable servers, only stale-if-error allows a stale answer")
    func noUnreachable() {
        var policy = policy
        policy.staleIfUnreachable = .zero
        let plain = HTTPRequestHead(url)
        #expect(!policy.mayAnswer(minute, to: plain, insteadOf: nil, mode: .default, at: after(60)))
        let lenient = HTTPRequestHead(url, fields: fields(["Cache-Control: stale-if-error=30"]))
        #expect(policy.mayAnswer(minute, to: lenient, insteadOf: nil, mode: .default, at: after(90)))
        #expect(!policy.mayAnswer(minute, to: lenient, insteadOf: nil, mode: .default, at: after(91)))
    }

    @Test("max-stale counts from the age that the request accepts")
    func maxAgeAndMaxStale() {
        #expect(reuse(minute, at: 15, "Cache-Control: max-age=5, max-stale=10") == .answer)
        #expect(reuse(minute, at: 16, "Cache-Control: max-age=5, max-stale=10") == .validate(.request))
        #expect(reuse(minute, at: 50, "Cache-Control: max-age=5, max-stale") == .answer)
        #expect(reuse(minute, at: 65, "Cache-Control: max-age=5, max-stale=10") == .validate(.stale))
        #expect(reuse(minute, at: 65, "Cache-Control: max-age=5, max-stale=60") == .answer)
    }
}
