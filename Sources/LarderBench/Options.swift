import Foundation

/// What the command line asks for.
struct Options {
    static let help = """
        usage: larder-bench [--scenario NAME] [--directory PATH] [--rounds N] [--short] [--json] [--plot FILE] [--guard] [--help]

        Runs each scenario and, in turns with it in the same process and place, what it is compared with: the bare system calls,
        or a dictionary under a lock. Build it with -c release.

          --scenario NAME    only those whose title contains NAME, as the table prints it: "set", "get 1 KiB", "memory", "open"
          --directory PATH   where to measure; by default in memory (/dev/shm), where there is that with 4 GiB free, and in the
                             temporary directory
          --rounds N         rounds of each scenario; 5 by default
          --short            without what takes long: a million entries
          --json             an object on a line for each scenario
          --plot FILE        also draws the figures of the first place, as SVG
          --guard            fails when even the best round of a scenario is more than twice above its target

        For tools:

          --count NAME N     runs one operation (\(Counted.names)) N times
          --resident NAME    prints the bytes that each entry takes
        """

    private(set) var isHelp = false
    private(set) var isJSON = false
    private(set) var isGuard = false
    private(set) var rounds = 5
    private(set) var places: [URL]
    private(set) var plot: URL?
    private(set) var counted: (operation: Counted, times: Int)?
    private(set) var resident: Resident?
    private var isShort = false
    private var scenario: String?

    init(_ arguments: [String]) throws {
        places = Self.standardPlaces
        var arguments = arguments[...]
        while let argument = arguments.popFirst() {
            func value() throws -> String {
                guard let value = arguments.popFirst() else {
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
            case "--short": isShort = true
            case "--guard": isGuard = true
            case "--scenario": scenario = try value()
            case "--rounds": rounds = try number()
            case "--plot": plot = URL(fileURLWithPath: try value())
            case "--directory":
                let path = try value()
                guard FileManager.default.isWritableFile(atPath: path) else {
                    throw BenchFailure("there is no directory \(path) to write to")
                }
                places = [URL(fileURLWithPath: path, isDirectory: true)]
            case "--count":
                guard let operation = Counted(rawValue: try value()) else {
                    throw BenchFailure("--count takes one of \(Counted.names), and a number")
                }
                counted = (operation, try number())
            case "--resident":
                guard let resident = Resident(rawValue: try value()) else { throw BenchFailure("see --help") }
                self.resident = resident
            default: throw BenchFailure("unknown option \(argument); see --help")
            }
        }
    }

    var scenarios: [Scenario] {
        Scenario.all.filter { scenario in
            if isShort, scenario.isLong { return false }
            return self.scenario.map { scenario.title.contains($0) } ?? true
        }
    }

    private static var standardPlaces: [URL] {
        let memory = URL(fileURLWithPath: "/dev/shm", isDirectory: true)
        let disk = FileManager.default.temporaryDirectory
        let space = try? FileManager.default.attributesOfFileSystem(forPath: memory.path)[.systemFreeSize] as? Int
        let hasRoom = FileManager.default.isWritableFile(atPath: memory.path) && (space ?? 0) >= neededSpace
        return hasRoom ? [memory, disk] : [disk]
    }

    /// Bytes that all scenarios together may take, and some more.
    private static let neededSpace = 4 << 30
}
