import Foundation

/// The options of the command line.
struct Options {
    static let help = """
        usage: larder-bench [--scenario NAME] [--directory PATH] [--rounds N] [--json] [--plot PATH] [--guard] [--help]

        Runs each scenario in turns with its floor, in the same process and place. The floor is the bare system
        calls, or a dictionary under a lock. Build with -c release. Where a single call is too short for the clock,
        and with two threads, the times are means of some hundred or thousand calls.

          --scenario NAME    only scenarios whose title in the table contains NAME: "set", "get 1 KiB", "memory", "open"
          --directory PATH   where to measure; by default in memory (/dev/shm), if it exists with 2 GiB free, and in the
                             temporary directory
          --rounds N         rounds of each scenario; 5 by default
          --json             one JSON object per line for each scenario
          --plot PATH        also draws the figures of the first place, as performance.svg, opening.svg, processes.svg
                             and segments.svg in this directory
          --guard            fails when even the best round of a scenario is more than twice above its target; leaves
                             out the scenarios that take long to prepare, unless --scenario names them

        usage: larder-bench policy [TRACE...] [--disk [--sessions N]] [--plot PATH]

        Replays traces of requests, files of little-endian numbers of 4 bytes (also .gz), through MemoryCache, and prints
        the hit ratios of its eviction policies beside models of S3-FIFO, SIEVE, ARC and W-TinyLFU, which evict one
        entry at a time, and the best possible; without a trace, some patterns.

          --disk             through DiskCache, on a disk in memory
          --sessions N       closes and opens it N times; 1 by default

        For tools:

          --soak N           runs N random operations of three kinds on values in segments with a size limit; fails
                             when they take more of the disk than promised; then stores N / 5 short values, and finds
                             them again without an index
          --count NAME N     runs one operation (\(Counted.names)) N times
          --shared           with --count: in a directory that other processes may use
          --resident NAME    prints the bytes that each entry takes, or the whole process
        """

    private(set) var isHelp = false
    /// The traces to replay; nil: something else is measured.
    private(set) var traces: [URL]?
    private(set) var isOnDisk = false
    private(set) var sessions = 1
    private(set) var isShared = false
    private(set) var isJSON = false
    private(set) var isGuard = false
    private(set) var rounds = 5
    private(set) var plot: URL?
    private(set) var counted: (operation: Counted, times: Int)?
    private(set) var soak: Int?
    private(set) var resident: Resident?
    /// This process was started by a benchmark, which writes to its input.
    private(set) var worker: Worker?
    private var place: Place?
    private var scenario: String?

    init(_ arguments: [String]) throws {
        var arguments = arguments[...]
        if arguments.first == "policy" {
            arguments.removeFirst()
            let paths = arguments.prefix { !$0.hasPrefix("--") }
            traces = paths.map { URL(fileURLWithPath: $0) }
            arguments.removeFirst(paths.count)
        }
        while let argument = arguments.popFirst() {
            func value() throws -> String {
                guard let value = arguments.popFirst(), !value.hasPrefix("--") else {
                    throw BenchFailure("\(argument) takes a value; see --help")
                }
                return value
            }
            func number() throws -> Int {
                guard let number = Int(try value()), number > 0 else {
                    throw BenchFailure("\(argument) takes a number")
                }
                return number
            }
            switch argument {
            case "--help": isHelp = true
            case "--json": isJSON = true
            case "--shared": isShared = true
            case "--disk": isOnDisk = true
            case "--sessions": sessions = try number()
            case "--guard": isGuard = true
            case "--scenario": scenario = try value()
            case "--rounds": rounds = try number()
            case "--directory": place = try Place(URL(fileURLWithPath: try value(), isDirectory: true))
            case "--plot":
                // Now, rather than after everything has been measured.
                plot = try Place(URL(fileURLWithPath: try value(), isDirectory: true)).url
            case "--count":
                guard let operation = Counted(rawValue: try value()) else {
                    throw BenchFailure("--count takes one of \(Counted.names), and a number")
                }
                counted = (operation, try number())
            case "--soak": soak = try number()
            case "--resident":
                guard let resident = Resident(rawValue: try value()) else { throw BenchFailure("see --help") }
                self.resident = resident
            case "--worker":
                guard let worker = Worker(rawValue: try value()) else { throw BenchFailure("see --help") }
                self.worker = worker
            default: throw BenchFailure("unknown option \(argument); see --help")
            }
        }
    }

    func places() throws -> [Place] { try place.map { [$0] } ?? Place.standard() }

    func scenarios() throws -> [Scenario] {
        let wanted = Scenario.all.filter { scenario in
            self.scenario.map { scenario.title.contains($0) } ?? !(isGuard && scenario.isLong)
        }
        if wanted.isEmpty { throw BenchFailure("there is no such scenario; --scenario set, get, memory, open, ...") }
        return wanted
    }
}
