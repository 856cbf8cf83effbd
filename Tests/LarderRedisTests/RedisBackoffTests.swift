#if Redis
    import Testing

    @testable import LarderRedis

    @Suite("The time before the next connection")
    struct RedisBackoffTests {
        @Test("it doubles while connections fail or do not last, and begins anew after one that has lasted")
        func doubling() {
            var backoff = RedisBackoff()
            let waits = (0..<12).map { _ in backoff.next(after: .milliseconds(10), jitter: 1) }
            #expect(waits.prefix(4) == [.milliseconds(50), .milliseconds(100), .milliseconds(200), .milliseconds(400)])
            #expect(waits.last == .seconds(30))
            let after = backoff.next(after: .seconds(7), jitter: 0)
            #expect(after == .milliseconds(25))
        }
    }
#endif
