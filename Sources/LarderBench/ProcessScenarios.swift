import Foundation
import Larder

/// A directory that several processes have open. The others are this program, started again, and Python.
extension Scenario {
    static var processes: [Scenario] {
        [getBesideWriter, missBesideWriter] + [100, 10_000].map { foreignRecord($0) }
            + [10_000, 100_000].map { openBeside($0) }
            + Mixed.all.flatMap { kind in processCounts.map { mixed(kind, $0) } }
    }

    private static let size = 1 << 10

    /// Hits on keys of this process, while another one stores others at full speed. Each hit follows the other first.
    private static var getBesideWriter: Scenario {
        let (count, turn) = (Content.operations(size), 500)
        return Scenario(
            name: "get beside a writer", size: size, unit: .us, floor: "the same with nobody else", hasWakes: true
        ) { folder in
            let (peer, cache) = (try Peer(.writer, folder.own), try folder.cache { $0 = Worker.configuration() })
            let alone = try DiskCache(directory: folder.floor, configuration: Worker.configuration())
            let (data, keys) = (Data(Content.bytes(size)), (0..<count).map(Content.key))
            for key in keys {
                try cache.setData(data, forKey: key)
                try alone.setData(data, forKey: key)
            }
            return Run(
                round: { _ in
                    var samples = (own: Samples(), floor: Samples())
                    func get(_ number: Int, _ cache: DiskCache) {
                        precondition(cache.data(forKey: keys[number * 7919 % count]) != nil)
                    }
                    for _ in 0..<20 {
                        try peer.run(.keepStoring)
                        timing(&samples.own, batch: turn) { for number in 0..<turn { get(number, cache) } }
                        try peer.run(.pause)
                        timing(&samples.floor, batch: turn) { for number in 0..<turn { get(number, alone) } }
                    }
                    return samples
                },
                close: {
                    try cache.close()
                    try alone.close()
                    try peer.close()
                })
        }
    }

    /// Lookups that read no file, while another process stores values at full speed: means that include following it.
    private static var missBesideWriter: Scenario {
        Scenario(
            name: "miss beside a writer", unit: .ns, floor: "the same with nobody else", target: .most(1_000),
            hasWakes: true
        ) { folder in
            let (peer, cache) = (try Peer(.writer, folder.own), try folder.cache { $0 = Worker.configuration() })
            let alone = try DiskCache(directory: folder.floor, configuration: Worker.configuration())
            for number in 0..<10_000 {
                try cache.setString("v", forKey: Content.key(number))
                try alone.setString("v", forKey: Content.key(number))
            }
            let keys = (0..<20_000).map { Content.key(50_000 + $0) }
            return Run(
                round: { _ in
                    var samples = (own: Samples(), floor: Samples())
                    func miss(_ cache: DiskCache) { for key in keys { precondition(cache.data(forKey: key) == nil) } }
                    for _ in 0..<20 {
                        try peer.run(.keepStoring)
                        timing(&samples.own, batch: keys.count) { miss(cache) }
                        try peer.run(.pause)
                        timing(&samples.floor, batch: keys.count) { miss(alone) }
                    }
                    return samples
                },
                close: {
                    try cache.close()
                    try alone.close()
                    try peer.close()
                })
        }
    }

    /// One lookup after another process has overwritten some of 10,000 values: the time for each of its records.
    private static func foreignRecord(_ count: Int) -> Scenario {
        let entries = 10_000
        return Scenario(
            name: "foreign record, \(Figure.short(count)) at once", entries: entries, unit: .ns, floor: "",
            target: .most(700), hasWakes: true
        ) { folder in
            let peer = try Peer(.unsaved, folder.own)
            let cache = try folder.cache { $0 = Worker.configuration(isSaved: false) }
            let key = Content.key(0)
            try peer.run(.store(first: 0, count: entries))
            return Run(
                round: { _ in
                    var samples = Samples()
                    for number in 0..<max(3, entries / count) {
                        try peer.run(.store(first: number * count % entries, count: count))
                        timing(&samples, batch: count) { precondition(cache.data(forKey: key) == nil) }
                    }
                    guard cache.count == entries else { throw BenchFailure("\(cache.count) of \(entries) are there") }
                    return (samples, Samples())
                },
                close: {
                    try cache.close()
                    try peer.close()
                })
        }
    }

    /// Opens a directory that another process has open, reads a value and closes it.
    private static func openBeside(_ entries: Int) -> Scenario {
        Scenario(
            name: "open beside, \(Figure.short(entries)) entries", entries: entries, unit: .ms, floor: "the same alone",
            target: .ratio(2), hasWakes: true
        ) { folder in
            for url in [folder.own, folder.floor] {
                try SyntheticDirectory(url, entries: entries).writeGrouped(journal: 0)
            }
            let peer = try Peer(.larder, folder.own)
            return Run(
                round: { round in
                    var samples = (own: Samples(), floor: Samples())
                    for number in 0..<2 * openings {
                        let key = Content.key(1 + (round + number) % SyntheticDirectory.filed)
                        try timing(&samples.own) { try openOnce(folder.own, key) }
                        try timing(&samples.floor) { try openOnce(folder.floor, key) }
                    }
                    return samples
                }, close: peer.close)
        }
    }

    private static func openOnce(_ directory: URL, _ key: String) throws {
        let cache = try DiskCache(directory: directory, configuration: Worker.configuration())
        precondition(cache.data(forKey: key) != nil)
        try cache.close()
    }
}

/// Processes that store and read at once.
extension Scenario {
    static let processCounts = [1, 2, 4, 8]

    enum Mixed: String {
        case larder = ""
        case sqlite = "SQLite "
        case diskcache = "diskcache "

        static var all: [Mixed] {
            [.larder] + (Worker.hasDatabase ? [.sqlite] : []) + (Diskcache.isInstalled ? [.diskcache] : [])
        }

        /// The number of operations of all processes in a round.
        fileprivate var operations: Int { self == .diskcache ? 4_000 : 24_000 }

        fileprivate func peer(_ directory: URL) throws -> Peer {
            switch self {
            case .larder: try Peer(.larder, directory)
            case .sqlite: try Peer(.sqlite, directory)
            case .diskcache: try Diskcache.peer(directory)
            }
        }
    }

    static func mixedName(_ kind: Mixed, _ processes: Int) -> String { "\(kind.rawValue)processes, \(processes)" }

    /// Half sets, half gets of 1 KiB on a thousand shared keys: the time from the start of all processes to the end of
    /// the last one, for each of their operations together.
    private static func mixed(_ kind: Mixed, _ processes: Int) -> Scenario {
        Scenario(name: mixedName(kind, processes), unit: .us, floor: "", hasWakes: true) { folder in
            let peers = try (0..<processes).map { _ in try kind.peer(folder.own) }
            try peers[0].run(.fill)
            return Run(
                round: { _ in
                    var samples = Samples()
                    try timing(&samples, batch: kind.operations) {
                        for (number, peer) in peers.enumerated() {
                            try peer.begin(.mix(process: number, pairs: kind.operations / 2 / processes))
                        }
                        for peer in peers { try peer.awaitAnswer() }
                    }
                    return (samples, Samples())
                }, close: { for peer in peers { try peer.close() } })
        }
    }
}
