import LarderHTTP
import Testing

@Suite("Cache-Control is read as servers write it")
struct CacheControlTests {
    private func parsed(_ lines: String...) -> CacheControl {
        CacheControl(lines.map { HTTPField("Cache-Control", $0) })
    }

    @Test(
        "a number of seconds is read from tokens and strings, with any case and spaces between directives",
        arguments: [
            "max-age=60", "Max-AGE=60", "max-age=\"60\"", ",, foo ,\tmax-age=60 ,", "a=\"b, max-age=1\", max-age=060",
        ])
    func seconds(line: String) {
        #expect(parsed(line).seconds("max-age") == 60)
    }

    @Test(
        "invalid numbers are 0",
        arguments: [
            "max-age", "max-age=", "max-age=-1", "max-age='60'", "max-age=60.0", "max-age=60a", "max-age =60",
            "max-age= 60", "max-age=60, max-age=61", "max-age=\"60",
        ])
    func invalidSeconds(line: String) {
        #expect(parsed(line).seconds("max-age") == 0)
    }

    @Test("too many digits are 2^31 seconds")
    func overflow() {
        #expect(parsed("max-age=99999999999999999999").seconds("max-age") == 1 << 31)
        #expect(parsed("max-age=2147483649").seconds("max-age") == 1 << 31)
        #expect(parsed("max-age=2147483647").seconds("max-age") == 2_147_483_647)
    }

    @Test("the same number twice is that number, and lines are one list")
    func repeated() {
        #expect(parsed("max-age=60", "public, max-age=60").seconds("max-age") == 60)
        #expect(parsed("max-age=60", "no-store").has("no-store"))
        #expect(parsed("max-age=60").seconds("s-maxage") == nil)
    }

    @Test("a directive inside a string is text")
    func quoted() {
        let directives = parsed("ext=\"no-store, no-cache\\\", must-revalidate\", max-age=5")
        #expect(!directives.has("no-store") && !directives.has("must-revalidate"))
        #expect(directives.has("ext") && directives.seconds("max-age") == 5)
    }

    @Test("a string without an end hides no no-store, nor the next line")
    func unterminated() {
        #expect(parsed("ext=\"a, no-store").forbidsStoring(understood: true))
        #expect(!parsed("ext=\"a, max-age=60").forbidsStoring(understood: true))
        #expect(parsed("ext=\"a", "no-cache").has("no-cache"))
    }

    @Test("a semicolon hides no directive before it, and leaves no number")
    func semicolons() {
        #expect(parsed("no-store; max-age=60").has("no-store") && parsed("No-Cache;").has("no-cache"))
        #expect(parsed("no-cache; x").has("no-cache") && parsed(";, max-age=60").seconds("max-age") == 60)
        #expect(parsed("max-age=60; must-revalidate").seconds("max-age") == 0)
    }

    @Test("must-understand cancels no-store where the status is understood")
    func mustUnderstand() {
        #expect(!parsed("no-store, must-understand").forbidsStoring(understood: true))
        #expect(parsed("no-store, must-understand").forbidsStoring(understood: false))
        #expect(parsed("no-store=x").forbidsStoring(understood: true))
    }
}
