import Foundation
import LarderFiles
import LarderTestSupport
import Testing

@testable import Larder
@testable import LarderTesting

/// A process that shares its directory is killed in one of its calls and accesses to the page, while another lives on.
///
/// A call or access that changes nothing is no point of its own: a kill in the next one leaves the same.
@Suite("Every crash point of several processes", .serialized, .storm)
struct SharedCrashTests {
    typealias Content = SharedCrashWorld.Content

    /// The first thing that the survivor does with each key.
    enum Reaction: CaseIterable {
        case read, set, remove, setIfAbsent
        /// A third process joins, and reads first.
        case join
    }

    /// The checks besides that of the content.
    enum Remains {
        case ignored
        /// Nothing, after a kill between the two accesses that publish a commit: its length, and the epoch.
        case halfPublished
        /// Files that no entry uses, after a flush of the survivor and after the next opening.
        case files
        /// Descriptors that are open after a close.
        case descriptors
        /// Nothing, but the survivor is killed, too, and then the directory is opened shared, or alone.
        case sharedAfterwards, aloneAfterwards
    }

    @Test(
        "a killed process blocks nobody, and leaves the effect of its step or none",
        arguments: Sample.few(8, of: SharedStep.all))
    func killed(step: SharedStep) async throws {
        try await kill(step, .ignored)
    }

    @Test(
        "a commit that is killed between its length and its epoch is there or not", arguments: SharedStep.changes)
    func halfPublished(step: SharedStep) async throws {
        try await kill(step, .halfPublished)
    }

    @Test(
        "those that live on delete the files that a killed process has left",
        arguments: Sample.few(4, of: SharedStep.all))
    func leftovers(step: SharedStep) async throws {
        try await kill(step, .files)
    }

    @Test("a closed cache has no descriptor open", arguments: Sample.few(4, of: SharedStep.all))
    func descriptors(step: SharedStep) async throws {
        try await kill(step, .descriptors)
    }

    @Test(
        "after the death of all, the first of others finds what they saw",
        arguments: Sample.few(5, of: SharedStep.changes))
    func sharedAfterwards(step: SharedStep) async throws {
        try await kill(step, .sharedAfterwards)
    }

    @Test(
        "after the death of all, one that does not share finds what they saw",
        arguments: Sample.few(5, of: SharedStep.changes))
    func aloneAfterwards(step: SharedStep) async throws {
        try await kill(step, .aloneAfterwards)
    }

    private func kill(_ step: SharedStep, _ remains: Remains) async throws {
        let watchdog = Watchdog(step.name)
        watchdog.note("not killed")
        let notes = try await notes(of: step)
        let points = remains == .halfPublished ? notes.publishing : notes.points
        let ends = remains == .halfPublished ? [] : [Int.max]
        let reactions = Reaction.allCases
        for (turn, point) in Sample.of(points + ends).enumerated() {
            let isSpecial = point == .max || remains == .halfPublished
            for reaction in isSpecial ? reactions : [reactions[turn % reactions.count]] {
                watchdog.note("killed in \(point), then \(reaction)")
                try await survive(step, killedIn: point, reaction, remains)
            }
        }
        #expect(remains == .halfPublished || !points.isEmpty)
        if remains == .ignored { print("shared crash test, \(step.name): \(points.count) points") }
    }

    /// Returns the calls in which a kill leaves something that no other kill does.
    private func notes(of step: SharedStep) async throws -> CallNotes {
        var world = try SharedCrashWorld(step)
        let notes = CallNotes(world.page)
        world.killed.files.countAccesses()
        world.killed.files.inject { call, operation in
            notes.note(call, operation)
            return nil
        }
        try await step.act(&world)
        world.victim?.settle()
        world.killed.files.inject(nil)
        return notes
    }

    private func survive(
        _ step: SharedStep, killedIn point: Int, _ reaction: Reaction, _ remains: Remains
    ) async throws {
        var world = try SharedCrashWorld(step)
        let context: Comment = "\(step.name), killed in \(point), then \(reaction)"
        world.killed.files.countAccesses()
        world.killed.files.inject { call, _ in call == point ? .kill : nil }
        var isDone = false
        do {
            try await step.act(&world)
            isDone = !world.killed.files.isDead
        } catch {
            if !world.killed.files.isDead { Issue.record(error, context) }
        }
        world.victim?.settle()
        world.killed.files.kill()
        let survivor = try world.survivor ?? world.other.open()
        let content = try react(reaction, survivor, world, context) { step.allows($0, isDone: isDone) }
        #expect(survivor.content == content, context)

        if remains == .sharedAfterwards || remains == .aloneAfterwards {
            world.other.files.kill()
            // Those that have it alone are killed, too, while they open the directory or soon afterwards.
            for call in remains == .aloneAfterwards ? Self.laterKills(point) : [] {
                let short = next(world, shares: false)
                short.files.inject { number, _ in number == call ? .kill : nil }
                let cache = try? short.open()
                let found = cache?.content
                #expect(short.files.isDead || found == content, "\(context), then killed in \(call)")
                cache?.settle()
                short.files.kill()
            }
            let next = next(world, shares: remains == .sharedAfterwards)
            let cache = try next.open()
            #expect(cache.content == content, context)
            try cache.flush()
            #expect(cache.content == content, context)
            cache.checkInvariants(next, settled: true)
            return
        }
        let third = world.killed.with(world.killed.files.another())
        let joined = try third.open()
        #expect(joined.content == content, context)
        try joined.close()
        try survivor.flush()
        survivor.removeExpired()
        survivor.settle()
        #expect(survivor.content == content, context)
        try survivor.flush()
        if remains == .files {
            #expect(world.other.fileCount == content.count, context)
            #expect(world.other.names.filter { $0.hasSuffix(".tmp") } == [], context)
        }
        survivor.checkInvariants()
        try survivor.close()
        #expect(survivor.content == [:], context)
        if remains == .descriptors {
            #expect(third.files.openCount == 0, context)
            #expect(world.other.files.openCount == 0, context)
        }
        try checkAfterwards(world, content, context, remains, point)
    }

    private func next(_ world: SharedCrashWorld, shares: Bool) -> World {
        var next = world.killed.with(world.killed.files.another())
        next.configuration.sharing = shares ? .processes : .exclusive
        return next
    }

    /// The calls in which those that open the directory afterwards are killed, one after another.
    private static func laterKills(_ point: Int) -> [Int] {
        var generator = RunSeed.generator("\(point)")
        return (0..<3).map { _ in Int.random(in: 0..<120, using: &generator) }
    }

    /// Lets the survivor act first. Returns the content afterwards, of which it has seen everything.
    private func react(
        _ reaction: Reaction, _ cache: DiskCache, _ world: SharedCrashWorld, _ context: Comment,
        isAllowed: (Content) -> Bool
    ) throws -> Content {
        var content: Content = [:]
        switch reaction {
        case .read:
            content = cache.content
            #expect(isAllowed(content), "\(context): \(content)")
        case .join:
            let joined = try world.killed.with(world.killed.files.another()).open()
            content = joined.content
            // Its background work would keep the lock of the directory for a while.
            try joined.close()
            #expect(isAllowed(content), "\(context): \(content)")
        case .set:
            for key in SharedCrashWorld.keys {
                try cache.store(key, "new")
                content[key] = "new 1 h"
            }
        case .remove:
            for key in SharedCrashWorld.keys {
                let known = cache.stored(key)
                if try cache.removeStored(key) { content[key] = known ?? "unknown" }
            }
            #expect(isAllowed(content), "\(context): removed \(content)")
            content = [:]
        case .setIfAbsent:
            var present: Content = [:]
            for key in SharedCrashWorld.keys {
                if try cache.storeIfAbsent(key, "new") {
                    content[key] = "new 1 h"
                } else {
                    present[key] = cache.stored(key)
                    content[key] = present[key]
                }
            }
            #expect(isAllowed(present), "\(context): present \(present)")
        }
        return content
    }

    /// Checks that openings that share the directory and one that does not find the same, and that it is in order.
    private func checkAfterwards(
        _ world: SharedCrashWorld, _ content: Content, _ context: Comment, _ remains: Remains, _ point: Int
    ) throws {
        if remains == .descriptors || remains == .ignored && point % 4 == 0 {
            let again = world.killed.with(world.killed.files.another())
            let shared = try again.open()
            #expect(shared.content == content, context)
            try shared.close()
            if remains == .descriptors { #expect(again.files.openCount == 0, context) }
        }
        var alone = world.killed.with(world.killed.files.another())
        alone.configuration.sharing = .exclusive
        let cache = try alone.open()
        #expect(cache.content == content, context)
        try cache.flush()
        let report = try cache.verify()
        #expect(report.damaged + report.missing + report.unreadable == [], "\(context): \(report)")
        cache.checkInvariants()
        if remains == .files {
            #expect(report.isClean, "\(context): \(report)")
            cache.checkInvariants(alone, settled: true)
        }
        #expect(cache.content == content, context)
        try cache.close()
        #expect(alone.files.openCount == 0, context)
    }
}
