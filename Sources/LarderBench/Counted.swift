import Foundation
import Larder

/// Repeats one operation for a profiler that counts instructions inside `counted` only.
enum Counted: String, CaseIterable {
    case set, get, miss, remove
    case memoryHit = "memory-hit"

    static var names: String { allCases.map(\.rawValue).joined(separator: ", ") }

    private static let entries = 1_000
    private static let size = 1 << 10
    fileprivate static let warmUp = 100

    /// `isShared`: as for a directory that several processes use.
    func run(_ operations: Int, in folder: Folder, isShared: Bool) throws {
        var configuration = DiskCache.Configuration()
        configuration.sharing = isShared ? .processes : .exclusive
        let cache = try DiskCache(directory: folder.own, configuration: configuration)
        let memory = MemoryCache<String, Data>()
        let value = Data(repeating: 7, count: Self.size)
        let keys = (0..<Self.entries).map(Content.key)
        for key in keys {
            try cache.setData(value, forKey: key)
            memory.setValue(value, forKey: key)
        }
        let missing = keys.map { $0 + "?" }
        var removable: [String] = []
        if self == .remove {
            // One for each operation, including the warm-up.
            removable = (0..<operations + Self.warmUp).map { "remove \($0)" }
            for key in removable { try cache.setData(value, forKey: key) }
        }
        switch self {
        case .set: try warmed(operations) { try cache.setData(value, forKey: keys[$0 % keys.count]) }
        case .get: warmed(operations) { precondition(cache.data(forKey: keys[$0 % keys.count]) != nil) }
        case .miss: warmed(operations) { precondition(cache.data(forKey: missing[$0 % keys.count]) == nil) }
        case .remove: try warmed(operations) { _ in try cache.removeValue(forKey: removable.removeLast()) }
        case .memoryHit: warmed(operations) { precondition(memory.value(forKey: keys[$0 % keys.count]) != nil) }
        }
        try cache.close()
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
