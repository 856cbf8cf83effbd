import Larder
import LarderTesting
import Testing

struct Unreachable: Error, Equatable {}

@Suite("A source that a test answers")
struct TestSourceTests {
    let world = TestWorld()
    let source = TestSource<String>()

    @Test("two callers of one key make one request")
    func coalesced() async throws {
        let cache: Cache<String> = try world.cache()
        let source = source
        async let first = cache.value(forKey: "k") { try await source.fetch("k") }
        async let second = cache.value(forKey: "k") { try await source.fetch("k") }
        await source.waitForRequests()
        #expect(source.pendingKeys == ["k"])
        source.succeed(with: "v")
        #expect(try await [first, second] == ["v", "v"])
        #expect(source.requestCount == 1 && source.pendingKeys.isEmpty)
    }

    @Test("an error reaches the caller, and is not cached")
    func failure() async throws {
        let cache = world.memoryOnlyCache(of: String.self)
        let source = source
        source.fail(with: Unreachable())
        source.succeed(with: "v")
        #expect(source.unusedAnswerCount == 2)
        await #expect(throws: Unreachable.self) { try await cache.value(forKey: "k") { try await source.fetch() } }
        #expect(try await cache.value(forKey: "k") { try await source.fetch() } == "v")
        #expect(source.requestCount == 2 && source.unusedAnswerCount == 0)
    }

    @Test("cancelling the only caller of a fetch cancels its request")
    func cancelled() async throws {
        let cache: Cache<String> = try world.cache()
        let source = source
        let caller = Task { try await cache.value(forKey: "k") { try await source.fetch("k") } }
        await source.waitForRequests()
        caller.cancel()
        await #expect(throws: CancellationError.self) { try await caller.value }
        await source.waitForCancellations()
        #expect(source.cancellationCount == 1 && source.pendingKeys.isEmpty)
        source.succeed(with: "v")
        #expect(try await source.fetch() == "v", "kept for the next request")
    }

    @Test("a request from a cancelled task is counted, and throws")
    func cancelledBefore() async throws {
        let source = source
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await source.fetch()
        }
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(source.requestCount == 1 && source.cancellationCount == 1)
    }

    @Test("an answer goes to the oldest request, or to the oldest with its key")
    func keys() async throws {
        let source = source
        async let a = source.fetch("a")
        await source.waitForRequests(1)
        async let b = source.fetch("b")
        await source.waitForRequests(2)
        let c = Task { try await source.fetch("c") }
        await source.waitForRequests(3)
        #expect(source.pendingKeys == ["a", "b", "c"] && source.requestedKeys == ["a", "b", "c"])
        source.succeed(with: "for b", forKey: "b")
        source.succeed(with: "for a")
        source.fail(with: Unreachable(), forKey: "c")
        #expect(try await a == "for a")
        #expect(try await b == "for b")
        await #expect(throws: Unreachable.self) { try await c.value }
    }

    @Test("answers given in advance are used in order; answers for a key wait for that key")
    func advance() async throws {
        let source = TestSource(answers: ["first", "second"])
        source.succeed(with: "for k", forKey: "k")
        #expect(try await source.fetch() == "first")
        #expect(try await source.fetch("k") == "second")
        #expect(try await source.fetch("k") == "for k")
        #expect(source.unusedAnswerCount == 0)
    }

    @Test("cancellation ends a wait for requests")
    func cancelledWait() async {
        let source = source
        let waiting = Task { await source.waitForRequests(100) }
        waiting.cancel()
        await waiting.value
        #expect(source.requestCount == 0)
    }

    @Test("a thousand requests, cancellations and answers at once: each request ends once")
    func storm() async {
        let source = TestSource<Int>()
        let outcomes = await withTaskGroup(of: Bool.self) { group in
            for number in 0..<1_000 {
                group.addTask {
                    let request = Task { try await source.fetch("\(number)") }
                    if number % 3 == 0 { request.cancel() }
                    return (try? await request.value) != nil
                }
                group.addTask {
                    source.succeed(with: number)
                    return false
                }
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(source.requestCount == 1_000 && source.pendingKeys.isEmpty)
        #expect(outcomes + source.cancellationCount == 1_000)
        #expect(source.unusedAnswerCount == 1_000 - outcomes)
    }
}
