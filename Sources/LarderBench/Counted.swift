import Foundation
import Larder

/// Repeats one operation for a profiler that counts instructions inside `counted` only.
enum Counted: String, CaseIterable {
    case set, get, miss, remove
    /// The same for values in segments.
    case segmentSet = "segment-set"
    case segmentGet = "segment-get"
    case memoryHit = "memory-hit"
    /// A new value in a full memory cache, which evicts another.
    case memorySet = "memory-set"
    /// A hit in the memory of a `Cache`: asynchronous, so all instructions of the process are counted, and the
    /// difference between two runs belongs to their operations.
    case cacheHit = "cache-hit"

    static var names: String { allCases.map(\.rawValue).joined(separator: ", ") }

    private static let entries = 1_000
    private static let size = 1 << 10
    fileprivate static let warmUp = 100

    /// `isShared`: as for a directory that several processes use.
    func run(_ operations: Int, in folder: Folder, isShared: Bool) throws {
        var configuration = DiskCache.Configuration()
        configuration.sharing = isShared ? .processes : .exclusive
        if self == .segmentSet || self == .segmentGet { configuration.inlineThreshold = Self.size }
        if self == .cacheHit {
            // Saves in the background would be counted.
            configuration.saveDelay = .seconds(3_600)
            return try hit(operations, in: folder, configuration)
        }
        let cache = try DiskCache(directory: folder.own, configuration: configuration)
        let memory = MemoryCache<String, Data>()
        let full = MemoryCache<String, Data>(configuration: .init(countLimit: Self.entries))
        let value = Data(repeating: 7, count: Self.size)
        let keys = (0..<Self.entries).map(Content.key)
        for key in keys {
            try cache.setData(value, forKey: key)
            memory.setValue(value, forKey: key)
            full.setValue(value, forKey: key)
        }
        let missing = keys.map { $0 + "?" }
        var removable: [String] = []
        if self == .remove {
            // One for each operation, including the warm-up.
            removable = (0..<operations + Self.warmUp).map { "remove \($0)" }
            for key in removable { try cache.setData(value, forKey: key) }
        }
        var fresh = self == .memorySet ? (0..<operations + Self.warmUp).map { "fresh \($0)" } : []
        switch self {
        case .set, .segmentSet: try warmed(operations) { try cache.setData(value, forKey: keys[$0 % keys.count]) }
        case .get, .segmentGet: warmed(operations) { precondition(cache.data(forKey: keys[$0 % keys.count]) != nil) }
        case .miss: warmed(operations) { precondition(cache.data(forKey: missing[$0 % keys.count]) == nil) }
        case .remove: try warmed(operations) { _ in try cache.removeValue(forKey: removable.removeLast()) }
        case .memoryHit: warmed(operations) { precondition(memory.value(forKey: keys[$0 % keys.count]) != nil) }
        case .memorySet: warmed(operations) { _ in full.setValue(value, forKey: fresh.removeLast()) }
        case .cacheHit: preconditionFailure("counted elsewhere")
        }
        try cache.close()
    }

    /// The calls run in a task beside the main thread, which waits: profilers do not survive that it ends.
    private func hit(_ operations: Int, in folder: Folder, _ configuration: DiskCache.Configuration) throws {
        let cache = try Cache<Data>(directory: folder.own, configuration: .init(disk: configuration))
        let keys = (0..<Self.entries).map(Content.key)
        let isDone = DispatchSemaphore(value: 0)
        Task.detached {
            for key in keys { try? await cache.setValue(Data(repeating: 7, count: Self.size), forKey: key) }
            for number in 0..<operations {
                let value = await cache.value(forKey: keys[number % keys.count])
                precondition(value != nil)
            }
            try? await cache.close()
            isDone.signal()
        }
        isDone.wait()
    }
}

/// Warms up first, so that work done once per process is not counted.
private func warmed(_ operations: Int, _ body: (Int) throws -> Void) rethrows {
    for number in 0..<Counted.warmUp { try body(number) }
    try counted(operations, body)
}

/// `.ci/instructions` refers to this function by name.
@inline(never)
private func counted(_ operations: Int, _ body: (Int) throws -> Void) rethrows {
    for number in 0..<operations { try body(number) }
}
