import Foundation

/// What the command line asks for.
struct Options {
    static let help = """
        usage: larder-bench [--scenario NAME] [--directory PATH] [--rounds N] [--json] [--help]

        Runs each scenario and, in turns with it in the same process and place, what it is compared with: the bare system calls,
        or a dictionary under a lock. Build it with -c release.

          --scenario NAME    only those whose name contains NAME: set, overwrite, get, miss, remove, memory, async, fetch
          --directory PATH   where to measure; by default in memory (/dev/shm), where there is that, and in the temporary directory
          --rounds N         rounds of each scenario; 5 by default
          --json             an object on a line for each scenario
        """

    private(set) var isHelp = false
    private(set) var isJSON = false
    private(set) var rounds = 5
    private(set) var places: [URL]
    /// What is to be run for a profiler instead, and how often.
    private(set) var counted: (operation: Counted, times: Int)?
    private var scenario: String?

    init(_ arguments: [String]) throws {
        places = Self.standardPlaces
        var arguments = arguments[...]
        while let argument = arguments.popFirst() {
            switch argument {
            case "--help": isHelp = true
            case "--json": isJSON = true
            case "--scenario": scenario = try Self.next(argument, &arguments)
            case "--directory":
                let path = try Self.next(argument, &arguments)
                guard FileManager.default.isWritableFile(atPath: path) else {
                    throw BenchFailure("there is no directory \(path) to write to")
                }
                places = [URL(fileURLWithPath: path, isDirectory: true)]
            case "--rounds": rounds = try Self.number(argument, &arguments)
            case "--count":
                guard let operation = Counted(rawValue: try Self.next(argument, &arguments)) else {
                    throw BenchFailure("--count takes one of \(Counted.allCases.map(\.rawValue)) and a number")
                }
                counted = (operation, try Self.number(argument, &arguments))
            default: throw BenchFailure("unknown option \(argument); see --help")
            }
        }
    }

    func wants(_ scenario: Scenario) -> Bool { self.scenario.map { scenario.name.contains($0) } ?? true }

    private static func next(_ option: String, _ arguments: inout ArraySlice<String>) throws -> String {
        guard let value = arguments.popFirst() else { throw BenchFailure("\(option) takes a value; see --help") }
        return value
    }

    private static func number(_ option: String, _ arguments: inout ArraySlice<String>) throws -> Int {
        guard let number = Int(try next(option, &arguments)), number > 0 else {
            throw BenchFailure("\(option) takes a number above 0")
        }
        return number
    }

    private static var standardPlaces: [URL] {
        let memory = URL(fileURLWithPath: "/dev/shm", isDirectory: true)
        let disk = FileManager.default.temporaryDirectory
        return FileManager.default.isWritableFile(atPath: memory.path) ? [memory, disk] : [disk]
    }
}

/// Why nothing can be measured.
struct BenchFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}
