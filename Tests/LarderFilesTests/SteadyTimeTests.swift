import LarderFiles
import Testing

@Suite("The time of a process")
struct SteadyTimeTests {
    @Test("goes on when the clock is set back by less than a minute, and is that of the clock again later")
    func step() {
        var steady = SteadyTime()
        #expect(steady.time(clock: 1_000_000, passed: 500) == 1_000_000)
        #expect(steady.time(clock: 1_005_000, passed: 5_500) == 1_005_000)
        #expect(steady.time(clock: 975_000, passed: 5_500) == 1_005_000, "30 s back")
        #expect(steady.time(clock: 976_000, passed: 6_500) == 1_006_000)
        #expect(steady.time(clock: 956_000, passed: 6_500) == 1_006_000, "50 s in all")
        #expect(steady.time(clock: 1_006_500, passed: 7_000) == 1_006_500, "right again")
        #expect(steady.time(clock: 946_499, passed: 7_000) == 946_499, "more than a minute")
        #expect(steady.time(clock: 946_599, passed: 7_100) == 946_599)
    }

    @Test("follows a clock that runs, is set forward, or differs by the time of reading it")
    func running() {
        var steady = SteadyTime()
        for (clock, passed) in [
            (0, 0), (10, 10), (3_600_000, 11), (3_600_100, 112), (3_600_199, 210), (3_600_300, 310),
        ] {
            #expect(steady.time(clock: Int64(clock), passed: Int64(passed)) == clock)
        }
    }

    @Test("passes as a clock without another one beside it goes forward")
    func alone() {
        var steady = SteadyTime()
        #expect(steady.time(clock: 100_000) == 100_000)
        #expect(steady.time(clock: 99_000) == 100_000)
        #expect(steady.time(clock: 99_500) == 100_500)
        #expect(steady.time(clock: 39_999) == 39_999)
        for clock in [Int64.max, .min, .max, 0] { _ = steady.time(clock: clock) }
    }

    @Test("is not set back by a thread that has read the clock before another one")
    func order() {
        var steady = SteadyTime()
        for time in Int64(1)...70_000 {
            let count = steady.count
            #expect(steady.time(clock: time, readAfter: count) == time)
            #expect(steady.time(clock: time - 1, readAfter: count) == time)
        }
        #expect(steady.lead == 0)
    }
}
