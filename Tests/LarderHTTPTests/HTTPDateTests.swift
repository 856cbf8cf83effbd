import LarderHTTP
import Testing

@Suite("Dates of HTTP are read in three formats")
struct HTTPDateTests {
    /// 2026-01-01 00:00:00 UTC
    private let now: Int64 = 1_767_225_600

    @Test(
        "the three formats of RFC 9110 name the same second",
        arguments: [
            "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
            "SUN, 06 nov 1994 08:49:37 gmt",
        ])
    func formats(text: String) {
        #expect(HTTPDate.seconds(text, now: now) == 784_111_777)
    }

    @Test(
        "text that is nearly a date is none",
        arguments: [
            "", "0", "Sun, 06 Nov 94 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 06-Nov-1994 08:49:37 GMT",
            "Sun 06 Nov 1994 08:49:37 GMT", "Sun, 06  Nov  1994 08:49:37 GMT", "Sun, 06 Nov 1994 08.49.37 GMT",
            "Sun, 06 Nov 1994 8:49:37 GMT", "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:49:37 GMT",
            "Nov, 06 Nov 1994 08:49:37 GMT", "784111777",
        ])
    func invalid(text: String) {
        #expect(HTTPDate.seconds(text, now: now) == nil)
    }

    @Test("a year with two digits is at most fifty years ahead")
    func century() {
        #expect(HTTPDate.seconds("Friday, 01-Jan-76 00:00:00 GMT", now: now) == 3_345_062_400)
        #expect(HTTPDate.seconds("Saturday, 01-Jan-77 00:00:00 GMT", now: now) == 220_924_800)
        // More than fifty years to the second, although 2076 is fifty calendar years ahead.
        #expect(HTTPDate.seconds("Wednesday, 01-Jan-76 00:00:01 GMT", now: now) == 189_302_401)
        #expect(HTTPDate.seconds("Thursday, 31-Dec-76 00:00:00 GMT", now: now) == 220_838_400)
        // At the end of a century the next one begins.
        #expect(HTTPDate.seconds("Friday, 01-Jan-00 00:00:00 GMT", now: 4_102_358_400) == 4_102_444_800)
        #expect(HTTPDate.seconds("Tuesday, 29-Feb-00 00:00:00 GMT", now: 4_102_358_400) == 951_782_400)
    }

    @Test("a printed date is read again, at every end of a month for four centuries")
    func roundTrip() {
        for day in stride(from: Int64(-40_000), through: 110_000, by: 7) {
            let seconds = day * 86_400 + (day % 86_400 + 86_400) % 86_400
            #expect(HTTPDate.seconds(HTTPDate.text(seconds), now: now) == seconds)
        }
        #expect(HTTPDate.text(784_111_777) == "Sun, 06 Nov 1994 08:49:37 GMT")
        #expect(HTTPDate.text(951_827_696) == "Tue, 29 Feb 2000 12:34:56 GMT")
    }
}
