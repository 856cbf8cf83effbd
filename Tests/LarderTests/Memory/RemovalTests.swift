import LarderFiles
import LarderTesting
import Testing

@testable import Larder

/// A suite whose memory caches have one clock, and report their removals to one list.
protocol RemovalTests {
    associatedtype Value: Sendable

    var clock: ManualClock { get }
    /// Key, value and cause of each removal since the last look.
    var told: Lock<[String]> { get }
}

extension RemovalTests {
    /// Creates a cache that releases at once and does not sweep, unless `configure` changes that.
    func cache(
        _ configure: (inout MemoryCache<String, Value>.Configuration) -> Void = { _ in }
    ) -> MemoryCache<String, Value> {
        // What goes first is known.
        var configuration = MemoryCache<String, Value>.Configuration(
            eviction: .leastRecentlyUsed, sweepInterval: nil, release: .inline)
        configuration.onRemove = { [told] key, value, cause in told.withLock { $0.append("\(key) \(value) \(cause)") } }
        configure(&configuration)
        return MemoryCache(configuration: configuration, clock: clock)
    }

    /// Expects these removals in this order.
    func expectTold(_ lines: [String], sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(told.withLock { $0 } == lines, sourceLocation: sourceLocation)
        told.withLock { $0 = [] }
    }

    /// Expects these removals in any order.
    func expectTold(_ lines: Set<String>, sourceLocation: SourceLocation = #_sourceLocation) {
        let told = told.withLock { $0 }
        #expect(told.count == lines.count && Set(told) == lines, sourceLocation: sourceLocation)
        self.told.withLock { $0 = [] }
    }
}
