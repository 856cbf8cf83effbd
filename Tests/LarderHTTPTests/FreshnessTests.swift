import LarderFiles
import LarderHTTP
import Testing

@Suite("The policy counts freshness and age")
struct FreshnessTests {
    private let policy = HTTPCachePolicy()

    /// Seconds.
    private func lifetime(_ response: HTTPResponseHead) -> Double { Double(policy.lifetime(of: response)) / 1000 }

    @Test("max-age wins over Expires, and s-maxage does not concern a private cache")
    func maxAge() {
        #expect(lifetime(response(200, "Cache-Control: max-age=60", "Expires: \(date(500))")) == 60)
        #expect(lifetime(response(200, "Cache-Control: s-maxage=600, max-age=60")) == 60)
        #expect(lifetime(response(200, "Cache-Control: max-age=x", "Expires: \(date(500))")) == 0)
        #expect(lifetime(response(200, "Cache-Control: s-maxage=600")) == 0)
    }

    @Test("Expires counts from Date, by the server's clock")
    func expires() {
        #expect(lifetime(response(200, "Expires: \(date(500))", "Date: \(date(400))")) == 100)
        #expect(lifetime(response(200, "Expires: \(date(300))", "Date: \(date(400))")) == 0)
        #expect(lifetime(response(200, "Expires: \(date(300))", "Date: foo")) == 300)
        #expect(lifetime(response(200, "Expires: 0")) == 0)
        #expect(lifetime(response(200, "Expires: \(date(300))", "Expires: \(date(301))")) == 0)
    }

    @Test("the heuristic is a tenth of the time since the last change, a day at most")
    func heuristic() {
        #expect(lifetime(response(200, "Last-Modified: \(date(-1000))")) == 100)
        #expect(lifetime(response(200, "Last-Modified: \(date(-86_400 * 100))")) == 86_400)
        #expect(lifetime(response(200, "Last-Modified: \(date(1000))")) == 0)
        #expect(lifetime(response(503, "Last-Modified: \(date(-1000))")) == 0)
        #expect(lifetime(response(503, "Last-Modified: \(date(-1000))", "Cache-Control: public")) == 100)
    }

    @Test("explicit freshness of nothing leaves no room for the heuristic")
    func explicitZero() {
        #expect(lifetime(response(200, "Cache-Control: max-age=0", "Last-Modified: \(date(-1000))")) == 0)
        #expect(lifetime(response(200, "Expires: 0", "Last-Modified: \(date(-1000))")) == 0)
    }

    @Test("age grows with the time since arrival, on top of the larger of Age and the time since Date")
    func age() {
        #expect(policy.age(of: response(), at: after(5)) == 5000)
        #expect(policy.age(of: response(200, "Age: 30"), at: after(5)) == 35_000)
        #expect(policy.age(of: response(200, "Date: \(date(-100))", "Age: 30"), at: after(5)) == 105_000)
        #expect(policy.age(of: response(200, "Date: \(date(100))"), at: after(5)) == 5000)
    }

    @Test("the time that the answer took counts as age")
    func delay() {
        var slow = response(200, "Age: 10")
        slow.requested = made.advanced(byMilliseconds: -4000)
        #expect(policy.age(of: slow, at: after(1)) == 15_000)
    }

    @Test(
        "Age is the first of a list, and nothing when that is no number",
        arguments: [
            ("7, 0", 7), ("0, 7", 0), ("abc", 0), ("-7", 0), ("7.0", 0), ("7;a=b", 0), ("9999999999", 1 << 31),
        ] as [(String, Int64)])
    func ageField(value: String, seconds: Int64) {
        #expect(policy.age(of: response(200, "Age: \(value)"), at: made) == seconds * 1000)
    }

    @Test("a response is stale at the end of its lifetime, not after it")
    func boundary() {
        let head = response(200, "Cache-Control: max-age=60")
        #expect(policy.remaining(of: head, at: after(59.999)) == 1)
        #expect(policy.remaining(of: head, at: after(60)) == 0)
    }

    @Test("a response from the future is stale, because its age is unknown")
    func clockSetBack() {
        let head = response(200, "Cache-Control: max-age=600")
        #expect(policy.remaining(of: head, at: after(-59)) > 0)
        #expect(policy.remaining(of: head, at: after(-61)) == 0)
    }

    @Test("the longest lifetimes do not overflow")
    func overflow() {
        let head = response(200, "Cache-Control: max-age=99999999999", "Age: 99999999999")
        #expect(policy.remaining(of: head, at: after(1)) == -1000)
        #expect(policy.remaining(of: response(200, "Cache-Control: max-age=99999999999"), at: made) == (1 << 31) * 1000)
    }

    @Test("a response is kept while it is fresh, and a week beyond or as long as its windows say")
    func retention() {
        let week: Int64 = 7 * 86_400_000
        #expect(policy.retention(of: response(200, "Cache-Control: max-age=60"), at: made) == week + 60_000)
        #expect(policy.retention(of: response(200, "ETag: \"a\""), at: made) == week)
        let long = response(200, "Cache-Control: max-age=0, stale-if-error=864000")
        #expect(policy.retention(of: long, at: made) == 864_000_000)
    }
}
