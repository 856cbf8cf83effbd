import Foundation
import LarderFiles
import LarderTestSupport
import Testing

@testable import Larder

@Suite("The pure parts of a remote tier")
struct RemotePartsTests {
    private let noon = Timestamp(milliseconds: 1_763_640_000_000)

    private func version(_ time: Int64, _ counter: UInt16 = 0) -> RemoteVersion {
        RemoteVersion(milliseconds: time, counter: counter, node: "00000000000000aa")
    }

    @Test("versions are hexadecimal digits of fixed width, and compare as strings")
    func versions() throws {
        let version = version(0x19a_bcde_f012, 0x3f)
        #expect(version.description == "019abcdef012003f00000000000000aa")
        #expect(version.milliseconds == 0x19a_bcde_f012 && version.counter == 0x3f)
        #expect(RemoteVersion(version.description) == version)
        for bad in ["", "x", version.description + "0", version.description.uppercased()] {
            #expect(RemoteVersion(bad) == nil)
        }
        #expect(self.version(9) < self.version(10) && self.version(9, 9) < self.version(9, 10))
        #expect(self.version((1 << 47) - 1) < self.version(1 << 47))
    }

    @Test("a hybrid clock never repeats itself, follows what it sees, and believes no wild future")
    func clock() {
        var clock = HybridClock(node: "0000000000000001")
        var last = clock.next(at: noon)
        for step in [0, 0, -1000, 5, -1, 1_000_000] {
            let next = clock.next(at: noon.advanced(byMilliseconds: Int64(step)))
            #expect(next > last)
            last = next
        }
        for _ in 0..<70_000 { last = clock.next(at: noon) }
        let next = clock.next(at: noon)
        #expect(next > last)
        var other = HybridClock(node: "0000000000000002")
        let seen = version(noon.milliseconds + 30_000, 7)
        other.observe(seen, at: noon)
        let after = other.next(at: noon)
        #expect(after > seen)
        other.observe(version(noon.milliseconds + 120_000), at: noon)
        let believed = other.next(at: noon)
        #expect(believed < version(noon.milliseconds + 60_000))
        other.correct(to: noon.milliseconds - 60_000, at: noon)
        let corrected = other.next(at: noon)
        #expect(corrected.milliseconds == noon.milliseconds - 60_000)
    }

    @Test("the circuit breaker opens after five failures, for longer each time, and lets one call try")
    func breaker() {
        var breaker = CircuitBreaker()
        for number in 1...5 {
            let mayCall = breaker.allows(at: noon)
            #expect(mayCall)
            let hasOpened = breaker.noteFailure(at: noon, jitter: 0)
            #expect(hasOpened == (number == 5))
        }
        var now = noon
        for expected in [1, 2, 4, 8, 16, 30, 30] as [Int64] {
            #expect(breaker.wait(at: now) == expected * 1000)
            let isEarly = breaker.allows(at: now.advanced(byMilliseconds: expected * 1000 - 1))
            now = now.advanced(byMilliseconds: expected * 1000)
            let (isFirst, isSecond) = (breaker.allows(at: now), breaker.allows(at: now))
            #expect(!isEarly && isFirst && !isSecond)
            let hasOpened = breaker.noteFailure(at: now, jitter: 0)
            #expect(!hasOpened)
        }
        // Set back by an hour.
        let mayTry = breaker.allows(at: now.advanced(byMilliseconds: -3_600_000))
        let (wasOpen, isOpen) = (breaker.noteSuccess(), breaker.noteSuccess())
        #expect(mayTry && wasOpen && !isOpen)
    }

    private func change(
        _ operation: RemoteQueue.Operation, _ time: Int64, at queued: Int64 = 0
    ) -> RemoteQueue.Change {
        RemoteQueue.Change(
            operation: operation, version: version(time), stamp: version(time),
            queued: Timestamp(milliseconds: queued), connection: 1, isTimed: true)
    }

    @Test("the queue keeps the latest change of a key, and a write that a renewal follows")
    func queue() throws {
        var queue = RemoteQueue(limit: 10)
        let (a, b) = (Key("a"), Key("b"))
        for each in [change(.write, 1), change(.remove, 3), change(.write, 2)] {
            let isQueued = queue.add(each, a)
            #expect(isQueued)
        }
        // Concurrent changes: the state here decides, under the higher version.
        #expect(queue.pending(a)?.operation == .write && queue.pending(a)?.version == version(3) && queue.count == 1)
        _ = (queue.add(change(.write, 4), b), queue.add(change(.renew, 5), b))
        #expect(queue.pending(b)?.operation == .write && queue.pending(b)?.version == version(5))
        let taken = queue.take(10)
        #expect(taken.map(\.key) == [a, b] && queue.isEmpty && queue.count == 2)
        _ = queue.add(change(.renew, 6), b)
        let none = queue.take(10)
        #expect(none.isEmpty)
        queue.finish(b, failed: true)
        #expect(queue.pending(b)?.operation == .write && queue.pending(b)?.version == version(6))
        queue.finish(a, failed: true)
        #expect(queue.pending(a)?.version == version(3))
        let first = queue.take(1).map(\.key)
        #expect(first == [a])
        queue.finish(a, failed: false)
        #expect(queue.pending(a) == nil)
        _ = (queue.add(change(.write, 8), a), queue.add(change(.expire, 9), a))
        #expect(queue.pending(a)?.operation == .write && queue.pending(a)?.version == version(9))
    }

    @Test("changes are taken oldest first, those that come meanwhile after the others")
    func turns() {
        var queue = RemoteQueue(limit: 10)
        for (time, key) in [(3, "c"), (1, "a"), (2, "b")] as [(Int64, String)] {
            _ = queue.add(change(.write, time), Key(key))
        }
        let first = queue.take(2).map(\.key.text)
        _ = queue.add(change(.write, 4), Key("a"))
        for key in ["a", "b"] { queue.finish(Key(key), failed: key == "b") }
        let rest = [queue.take(1), queue.take(5), queue.take(5)].map { $0.map(\.key.text) }
        #expect(first == ["a", "b"] && rest == [["c"], ["b", "a"], []])
    }

    @Test("a clock that a server shows wrongly stops nothing")
    func wildTimes() {
        for time in [Int64.max, .min, -1, 1 << 60] {
            var clock = HybridClock(node: "0000000000000001")
            clock.correct(to: time, at: noon)
            let (one, two) = (clock.next(at: noon), clock.next(at: noon))
            #expect(one < two && one.milliseconds == noon.milliseconds && !clock.isCorrected)
            #expect(one.moved(by: time).description.utf8.count == RemoteVersion.length)
        }
    }

    @Test("a queue that is full, and changes that are too old, become one clear")
    func queueBounds() {
        var queue = RemoteQueue(limit: 2)
        let isQueued = ["a", "b", "c"].enumerated().map { queue.add(change(.remove, Int64($0 + 1)), Key($1)) }
        #expect(isQueued == [true, true, false])
        #expect(queue.count == 1 && queue.dropped == 3 && queue.firstClear()?.version == version(3))
        // A fetch has the version of its beginning: what came before its end must be covered, too.
        var mixed = RemoteQueue(limit: 1)
        _ = mixed.add(change(.remove, 5), Key("a"))
        _ = mixed.add(change(.write, 3), Key("b"))
        #expect(mixed.firstClear()?.version == version(5))
        var clears = RemoteQueue(limit: 10)
        for (tag, time) in [("t", 9), ("t", 8), (nil, 7)] as [(String?, Int64)] {
            let scope = tag.map { Key($0) }
            _ = clears.add(.init(scope: scope, version: version(time), isExpiry: false, queued: noon, isTimed: true))
        }
        #expect(clears.count == 1 && clears.firstClear()?.version == version(9))
        var old = RemoteQueue(limit: 10)
        _ = old.add(change(.remove, 1, at: 0), Key("a"))
        _ = old.add(change(.remove, 2, at: 500), Key("b"))
        let isYoung = [1000, 1001].map { old.dropOld(1000, version: version(9), at: Timestamp(milliseconds: $0)) }
        #expect(isYoung == [true, false])
        #expect(old.count == 1 && old.firstClear()?.version == version(9))
        let isFine = old.dropOld(1000, version: version(10), at: Timestamp(milliseconds: 100_000))
        #expect(isFine)
    }

    @Test("a question that has its answer takes no more callers", .timeLimit(.minutes(10)))
    func questions() async {
        let questions = RemoteQuestions<String>()
        let (key, gate, isClosed, isAsked) = (Key("k"), RemoteGate(), Flag(), Flag())
        async let first = questions.ask(key) { close in
            close()
            isClosed.set()
            await gate.wait()
            return nil
        }
        await eventually { isClosed.isSet }
        _ = await questions.ask(key) { _ in
            isAsked.set()
            return nil
        }
        #expect(isAsked.isSet)
        gate.open()
        _ = await first
    }

    @Test("trust ends with a notice, a clear or a new connection, and answers from before it do not restore it")
    func trust() {
        var trust = RemoteTrust()
        let (a, b, tag) = (Key("a"), Key("b"), Key("t"))
        func standing(_ key: Key, _ tags: [Key] = [], _ time: Int64 = 1) -> RemoteTrust.Standing {
            trust.standing(of: key, tags: tags, version: version(time))
        }
        func confirm(_ key: Key, since number: UInt64? = nil) -> Bool {
            trust.confirm(key, tags: [], version: version(1), since: number ?? trust.last)
        }
        #expect(standing(a) == .unverified)
        let isConfirmed = confirm(a, since: trust.begin(a))
        #expect(isConfirmed && standing(a) == .trusted)
        let second = trust.begin(a)
        _ = trust.note(a, version: version(2), hasCopy: false)
        #expect(standing(a) == .noticed)
        let isOutdated = trust.isOutdated(a, tags: [], version: version(1), since: second)
        let isConfirmedLate = confirm(a, since: second)
        #expect(isOutdated && !isConfirmedLate)
        trust.end(a)
        trust.end(a)
        _ = (confirm(a), confirm(b))
        trust.note(clearOf: tag, version: version(3))
        #expect(standing(a, [tag]) == .noticed && standing(b) == .trusted)
        trust.connect()
        #expect(standing(a, [tag]) == .noticed && standing(b) == .unverified)
        trust.noteAll()
        #expect(standing(b) == .noticed)
    }

    @Test("a notice concerns no copy that is newer than the change")
    func newerThanNotice() {
        var trust = RemoteTrust()
        let (key, tag) = (Key("a"), Key("t"))
        _ = trust.note(key, version: version(5), hasCopy: true)
        trust.note(clearOf: tag, version: version(7))
        let standings = [4, 5, 6, 7].map { trust.standing(of: key, tags: [tag], version: version($0)) }
        #expect(standings == [.noticed, .noticed, .noticed, .unverified])
        #expect(trust.standing(of: key, tags: [], version: version(5)) == .unverified)
        // One whose version cannot be compared is asked for.
        #expect(trust.standing(of: key, tags: [], version: nil) == .noticed)
        #expect(trust.isOld(key, tags: [], version: version(4)) && !trust.isOld(key, tags: [], version: version(5)))
        _ = trust.note(key, version: nil, hasCopy: true)
        #expect(trust.standing(of: key, tags: [], version: version(9)) == .noticed)
        #expect(!trust.isOld(key, tags: [], version: version(4)))
    }

    @Test("notices are forgotten once their copies are gone, unless somebody asks meanwhile, and are bounded")
    func resolvedNotices() {
        var trust = RemoteTrust()
        let (a, b, tag) = (Key("a"), Key("b"), Key("t"))
        let question = trust.begin(a)
        for key in [a, b] { _ = trust.note(key, version: version(5), hasCopy: true) }
        trust.note(clearOf: tag, version: version(5))
        let last = trust.last
        let (keys, clears) = trust.takeUnresolved(9)
        #expect(Set(keys) == [a, b] && clears.keys.map { $0 } == [tag] && !trust.hasUnresolved)
        _ = trust.note(b, version: version(6), hasCopy: true)
        for key in keys { trust.forget(key, upTo: last) }
        for (tag, clear) in clears { trust.forget(clear, of: tag) }
        func standing(_ key: Key) -> RemoteTrust.Standing { trust.standing(of: key, tags: [tag], version: version(1)) }
        // One that has asked before must hear of it.
        #expect(trust.isOutdated(a, tags: [], version: version(1), since: question))
        #expect(trust.isOutdated(Key("c"), tags: [tag], version: version(1), since: question))
        trust.end(a)
        #expect(standing(a) == .unverified && standing(b) == .noticed && trust.hasUnresolved)
        for number in 0..<RemoteTrust.most where trust.hasUnresolved {
            _ = trust.note(Key("n\(number)"), version: version(5), hasCopy: true)
        }
        #expect(trust.standing(of: Key("c"), tags: [], version: version(9)) == .noticed && !trust.hasUnresolved)
    }

    @Test("a mark survives as a field that the store does not know")
    func stamps() throws {
        for origin in [.untimed, .offline, .epoch(0x1F), .epoch(.max)] as [RemoteStamp.Origin] {
            let stamp = RemoteStamp(version: version(1), origin: origin)
            #expect(RemoteStamp(in: stamp.field) == stamp)
            #expect(RemoteStamp(in: Array(",\"zz\":1".utf8) + stamp.field + Array(",\"w\":2".utf8)) == stamp)
        }
        #expect(RemoteStamp(in: Array(",\"sv\":\"\(version(1)) x\"".utf8))?.origin == .untimed)
        for bad in ["", ",\"sv\":\"\"", ",\"sv\":\"x y z\"", ",\"sv\":\"\(version(1).description.dropLast())\""] {
            #expect(RemoteStamp(in: Array(bad.utf8)) == nil)
        }
    }

    @Test("only a copy of which nothing can have been forgotten, or that was never sent, survives a missing key")
    func verdicts() {
        func verdict(
            _ finding: RemoteReading.Finding, stamp time: Int64? = 5, _ origin: RemoteStamp.Origin? = nil,
            age: Int64 = 0, noticed: Bool = false, pending: Bool = false, epoch: String = "e",
            scopes: RemoteReading.Scopes = .current
        ) -> RemoteVerdict {
            let origin = origin ?? .epoch(RemoteStamp.digest("e"))
            let stamp = time.map { RemoteStamp(version: version($0), origin: origin) }
            let copy = RemoteCopy(stamp: stamp, age: age, isNoticed: noticed, isPending: pending)
            return copy.verdict(
                on: RemoteReading(finding, scopes: scopes), epoch: RemoteStamp.digest(epoch), memory: 1000)
        }
        let life = RemoteLife(remaining: 1, keptStale: 0, age: 0)
        let entry = RemoteEntry(payload: Data(), record: Data(), checksum: 0)
        func value(_ time: Int64) -> RemoteReading.Finding { .value(entry, version(time), life) }
        #expect(verdict(.missing) == .valid && verdict(.missing, stamp: nil) == .valid)
        #expect(verdict(.missing, scopes: .unknown) == .valid && verdict(.missing, scopes: .cleared) == .invalid)
        #expect(verdict(.missing, noticed: true) == .invalid)
        #expect(verdict(.missing, epoch: "f") == .invalid)
        #expect(verdict(.missing, age: 1000) == .invalid)
        #expect(verdict(.missing, noticed: true, pending: true, epoch: "f") == .valid)
        #expect(verdict(.missing, .offline) == .unsent && verdict(.missing, .untimed) == .invalid)
        #expect(verdict(.missing, .offline, noticed: true) == .invalid)
        #expect(verdict(.missing, .offline, age: 1000) == .invalid)
        #expect(verdict(.missing, .offline, scopes: .cleared) == .invalid)
        #expect(verdict(value(4), .offline, scopes: .cleared) == .replaced)
        #expect(verdict(.unchanged(version(5), life)) == .valid)
        #expect(verdict(.unchanged(version(6), life)) == .invalid)
        #expect(verdict(value(6)) == .replaced && verdict(value(4), stamp: nil) == .replaced)
        // The server has something older: the copy never came there.
        #expect(verdict(value(4)) == .unsent && verdict(value(4), epoch: "f") == .unsent)
        #expect(verdict(value(4), age: 1000) == .replaced && verdict(value(4), scopes: .cleared) == .replaced)
        #expect(verdict(value(4), noticed: true) == .valid)
        #expect(verdict(value(4), noticed: true, epoch: "f") == .replaced)
        #expect(verdict(value(4), pending: true, epoch: "f") == .valid)
        #expect(verdict(value(4), .offline) == .unsent && verdict(value(6), .offline) == .replaced)
        #expect(verdict(value(4), .untimed) == .replaced)
        #expect(verdict(.removed(version(6))) == .invalid && verdict(.removed(version(5))) == .valid)
        #expect(verdict(.removed(version(5)), scopes: .cleared) == .invalid)
        #expect(verdict(.removed(version(5)), epoch: "f") == .valid)
        #expect(verdict(.removed(version(5)), epoch: "f", scopes: .unknown) == .invalid)
        #expect(verdict(.removed(version(4)), pending: true, epoch: "f") == .valid)
        #expect(verdict(.removed(version(4)), .offline) == .unsent)
        #expect(verdict(.removed(version(4)), epoch: "f") == .unsent)
        #expect(verdict(.cleared(version(5))) == .invalid && verdict(.cleared(version(4))) == .unsent)
    }
}
