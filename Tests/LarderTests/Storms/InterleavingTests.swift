import Dispatch
import LarderFiles
import LarderTestSupport
import LarderTesting
import Testing

@testable import Larder

@Suite("A set of one process, interrupted by another", .serialized, .storm)
struct InterleavingTests {
    /// Where the set is held.
    enum Moment: CaseIterable {
        /// Before its journal is begun, without a number: it comes last.
        case beginning
        /// Before its file is created, or its value appended to a segment, with its number taken.
        case creating
        /// Before its record is written, with its file complete.
        case recording

        /// The number of the call and the operation, among those of the set.
        var call: (Int, MemoryFileSystem.Operation) {
            switch self {
            case .beginning: (1, .create)
            case .creating: (1, World.inlineThreshold > 0 ? .write : .create)
            case .recording: (2, .write)
            }
        }
    }

    /// A third process.
    enum Third {
        case none
        /// It joins while the set is held.
        case joins
        /// It follows, and reads its index anew while the set is held, because too many journals have been begun.
        case reloads
    }

    @Test("has a result that an order explains", arguments: Interleaving.all, Moment.allCases)
    func interleaved(_ pair: Interleaving, _ moment: Moment) throws {
        try interleave(pair, moment, .none)
    }

    @Test(
        "has the same result for a process that joins meanwhile",
        arguments: Sample.few(8, of: Interleaving.all), Moment.allCases)
    func joined(_ pair: Interleaving, _ moment: Moment) throws {
        try interleave(pair, moment, .joins)
    }

    @Test(
        "has the same result for a process that reads its index anew meanwhile",
        arguments: Sample.few(8, of: Interleaving.all), Moment.allCases)
    func reloaded(_ pair: Interleaving, _ moment: Moment) throws {
        try interleave(pair, moment, .reloads)
    }

    @Test(
        "expires with its tag, although the expiry has been applied",
        arguments: [Moment.creating, .recording])
    func expired(_ moment: Moment) throws {
        try interleave(.appliedExpiry, moment, .none)
    }

    @Test("loses to a value that has been saved twice", arguments: [Moment.creating, .recording])
    func saved(_ moment: Moment) throws {
        try interleave(.manySaves, moment, .none)
    }

    @Test(
        "leaves no file of a saved value that it has replaced")
    func replaced() throws {
        try interleave(.manySaves, .beginning, .none)
    }

    @Test(
        "does not bring a removed value back when only a process that joined meanwhile lives on")
    func resurrected() throws {
        let world = World.shared()
        let other = world.anotherProcess()
        let gate = GatedFileSystem(world.files)
        let one = try world.open(through: gate)
        let two = try other.open()
        try one.store("m", "m")
        let (number, operation) = Moment.creating.call
        let hold = gate.hold(number) { found, _, _ in found == operation }
        let isDone = DispatchSemaphore(value: 0)
        DispatchQueue.global().async {
            try? one.store("k", "held")
            isDone.signal()
        }
        hold.reached.wait()
        try two.store("k", "other")
        check(try two.removeStored("k"), true)
        let joined = try world.anotherProcess().open()
        hold.free.signal()
        isDone.wait()
        #expect(two.stored("k") == nil)
        try joined.flush()
        world.files.kill()
        other.files.kill()
        try joined.close()
        #expect(try world.anotherProcess().open().stored("k") == nil)
    }

    @Test("loses to a newer value of a process that has cleared everything while it was alone")
    func afterClear() throws {
        let world = World.shared()
        let two = try world.anotherProcess().open()
        try two.store("n/k", "cleared")
        try two.removeAll()
        let gate = GatedFileSystem(world.files)
        let one = try world.open(through: gate)
        try one.store("m", "m")
        let (number, operation) = Moment.recording.call
        let hold = gate.hold(number) { found, _, _ in found == operation }
        let isDone = DispatchSemaphore(value: 0)
        DispatchQueue.global().async {
            try? one.store("k", "held")
            isDone.signal()
        }
        hold.reached.wait()
        try two.store("k", "newer")
        hold.free.signal()
        isDone.wait()
        for cache in [two, one] { #expect(cache.stored("k") == "newer 1 h") }
        try two.close()
        #expect(one.stored("k") == "newer 1 h")
    }

    private func interleave(_ pair: Interleaving, _ moment: Moment, _ third: Third) throws {
        // Nobody waits yet.
        if pair.mayWait, moment == .beginning { return }
        let world = World.shared { $0.entriesPerGroup = 2 }
        let other = world.anotherProcess()
        let gate = GatedFileSystem(world.files)
        let context: Comment = "\(pair.name), \(moment)"
        let one = try world.open(through: gate)
        let two = try other.open()
        // Before its journal is begun, it must not have changed anything.
        let first = moment == .beginning ? two : one
        try first.store("m", "m")
        if let value = pair.before { try first.store("k", value, tags: ["t"]) }
        #expect(one.stored("k") == two.stored("k"))
        let follower = third == .reloads ? try world.anotherProcess().open() : nil
        let (number, operation) = moment.call
        let hold = gate.hold(number) { found, _, _ in found == operation }
        let (isDone, isOtherDone) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let failures = FailureNotes()
        DispatchQueue.global().async {
            do { try one.store("k", "held", tags: ["t"]) } catch { failures.add("\(error)") }
            isDone.signal()
        }
        hold.reached.wait()
        DispatchQueue.global().async {
            do { try pair.act(two) } catch { failures.add("\(error)") }
            isOtherDone.signal()
        }
        if !pair.mayWait { isOtherDone.wait() }
        if let follower, !pair.mayWait {
            for number in 0..<6 {
                try two.store("n/l", "\(number)")
                try two.flush()
            }
            #expect(follower.stored("n/l") == "5 1 h")
        }
        let joined = third == .joins ? try world.anotherProcess().open() : nil
        hold.free.signal()
        isDone.wait()
        if pair.mayWait { isOtherDone.wait() }
        #expect(failures.all == [], context)

        let after = moment == .beginning ? "held 1 h" : pair.after.map { "\($0) 1 h" }
        let all = [two, one, joined, follower].compactMap { $0 }
        for (number, cache) in all.enumerated() { #expect(cache.stored("k") == after, "\(context): \(number)") }
        for cache in all.reversed() {
            try cache.flush()
            #expect(cache.stored("k") == after, context)
        }
        // What one has set aside goes once no other has an older file any more.
        for cache in all + all {
            try cache.flush()
            cache.settle()
        }
        #expect(world.fileCount == one.count + one.namespace("n").count, "\(context): no file is left")
        for cache in all { try cache.close() }
        var alone = world.with(world.files.another())
        alone.configuration.sharing = .exclusive
        let cache = try alone.open()
        #expect(cache.stored("k") == after, context)
        try cache.flush()
        #expect(try cache.verify().isClean, "\(context): \(world.names)")
        cache.checkInvariants(alone, settled: true)
    }
}
