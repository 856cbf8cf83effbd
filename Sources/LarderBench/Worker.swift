import Foundation
import Larder
import LarderFiles

/// A process that a benchmark has started beside itself. It follows the orders of a `Peer`.
enum Worker: String {
    /// Stores and reads values of 1 KiB, in a directory that processes share.
    case larder
    /// Stores values of 100 bytes, in the same way.
    case writer
    /// The same, but nothing saves the index: everything stays in one journal.
    case unsaved
    /// Stores and reads values of 1 KiB in SQLite.
    case sqlite
    /// Stores and fetches values of 1 KiB through a remote tier, see `RedisWorker`.
    case redis

    /// The place where values are stored, each under its key.
    struct Store {
        let set: (_ key: String) throws -> Void
        /// Returns whether there is a value.
        let get: (_ key: String) -> Bool
        let close: () throws -> Void
    }

    /// Runs until it is told to close, or until the input ends because the benchmark has ended.
    func run(in directory: URL) throws {
        let orders = Orders()
        let store = try open(directory)
        let keys = (0..<Order.keys).map(Content.key)
        let own = keys.indices.map { Content.key(Order.first + $0) }
        Orders.answer()
        while true {
            switch orders.next() {
            case .fill: for key in keys { try store.set(key) }
            case .store(let first, let count):
                for number in first..<first + count { try store.set(Content.key(Order.first + number)) }
            case .keepStoring:
                Orders.answer()
                var number = 0
                repeat {
                    try store.set(own[number])
                    number = (number + 1) % own.count
                } while orders.isEmpty
                // The order that has ended it is answered next.
                continue
            case .pause: break
            case .mix(let process, let pairs):
                for number in 0..<pairs {
                    try store.set(keys[(number * 7919 + process * 131) % keys.count])
                    let other = keys[(number * 6101 + process * 257) % keys.count]
                    if !store.get(other) { throw BenchFailure("the value of \(other) is missing") }
                }
            case .close: return try store.close()
            }
            Orders.answer()
        }
    }

    private func open(_ directory: URL) throws -> Store {
        if self == .sqlite { return try Self.database(directory) }
        let cache = try DiskCache(directory: directory, configuration: Self.configuration(isSaved: self != .unsaved))
        let data = Data(Content.bytes(self == .larder ? 1 << 10 : 100))
        return Store(
            set: { try cache.setData(data, forKey: $0) }, get: { cache.data(forKey: $0) != nil }, close: cache.close)
    }

    /// The default settings for a directory that processes share; or those that keep saves out of a measurement.
    static func configuration(isSaved: Bool = true) -> DiskCache.Configuration {
        var configuration = DiskCache.Configuration(sharing: .processes)
        if !isSaved {
            configuration.saveDelay = .seconds(86_400)
            configuration.sweepInterval = nil
        }
        return configuration
    }
}

/// A line that a peer writes to a worker.
enum Order {
    /// Store a value under each of the shared keys.
    case fill
    /// Store so many values, under keys that nobody else uses.
    case store(first: Int, count: Int)
    /// Store values until the next order, under keys that nobody else uses. Answered when it begins.
    case keepStoring
    case pause
    /// Store and read values in turns, under the shared keys. Each process uses them in another order.
    case mix(process: Int, pairs: Int)
    case close

    /// The number of shared keys.
    static let keys = 1_000
    /// The number of the first key that nobody else uses.
    static let first = 500_000

    init?(_ line: String) {
        let words = line.split(separator: " ")
        let numbers = words.dropFirst().compactMap { Int($0) }
        switch (words.first, numbers.count) {
        case ("fill", 0): self = .fill
        case ("store", 2): self = .store(first: numbers[0], count: numbers[1])
        case ("keep-storing", 0): self = .keepStoring
        case ("pause", 0): self = .pause
        case ("mix", 2): self = .mix(process: numbers[0], pairs: numbers[1])
        case ("close", 0): self = .close
        default: return nil
        }
    }

    var line: String {
        switch self {
        case .fill: "fill\n"
        case .store(let first, let count): "store \(first) \(count)\n"
        case .keepStoring: "keep-storing\n"
        case .pause: "pause\n"
        case .mix(let process, let pairs): "mix \(process) \(pairs)\n"
        case .close: "close\n"
        }
    }
}

/// The orders from standard input. A thread reads them, so that this process ends with the benchmark at any time.
final class Orders: Sendable {
    private let waiting = Lock<[Order]>([])
    private let count = DispatchSemaphore(value: 0)

    init() {
        Thread.detachNewThread { [self] in
            while let line = readLine() {
                guard let order = Order(line) else { break }
                waiting.withLock { $0.append(order) }
                count.signal()
            }
            _exit(1)
        }
    }

    var isEmpty: Bool { waiting.withLock { $0.isEmpty } }

    func next() -> Order {
        count.wait()
        return waiting.withLock { $0.removeFirst() }
    }

    /// Tells the peer that the last order is carried out.
    static func answer() {
        if write(STDOUT_FILENO, ".", 1) != 1 { _exit(1) }
    }
}
