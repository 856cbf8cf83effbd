import Larder
import LarderFiles
import LarderTesting
import Testing

@Suite("The steps of a world with a seed")
struct SeededWorldTests {
    @available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *)
    @Test("run one at a time, and leave the same trace for the same seed")
    func steps() async throws {
        func trace(_ seed: UInt64) async throws -> [String] {
            let world = TestWorld(seed: seed)
            world.keepTrace()
            let caches = [try world.diskCache(), try world.diskCache(name: "other")]
            try await world.run {
                for cache in caches {
                    try cache.setString("a", forKey: "a")
                    try cache.setString("b", forKey: "a")
                    try cache.removeAll()
                }
            }
            let before = world.trace.count
            var steps = 0
            while world.step() { steps += 1 }
            #expect(steps > 1 && world.trace.count > before, "the rest runs step by step")
            #expect(!world.step())
            return world.trace
        }
        let (one, again, other) = (try await trace(1), try await trace(1), try await trace(2))
        #expect(one == again && one != other)
    }

    @Test("include what is done when the last owner of a cache ends, in the owner's turn")
    func release() {
        final class Owned: Sendable {
            let simulator: Simulator
            let turns: Lock<[Bool]>
            init(_ simulator: Simulator, _ turns: Lock<[Bool]>) { (self.simulator, self.turns) = (simulator, turns) }
            deinit { turns.withLock { [isInTurn = simulator.isCaller] in $0.append(isInTurn) } }
        }
        let simulator = Simulator(seed: 1)
        let turns = Lock<[Bool]>([])
        simulator.begin("owner", process: 1) { [owned = Owned(simulator, turns)] in withExtendedLifetime(owned) {} }
        simulator.run()
        #expect(turns.withLock { $0 } == [true])
    }
}
