import Foundation
import Larder

/// The parsed command line.
struct Options {
    enum Command {
        case count(URL), list, clear, help
    }

    static let help = """
        usage: QuickStart [--ttl LIFE] [DIRECTORY]
               QuickStart --list | --clear | --help

        Counts the lines and words of the text files in DIRECTORY (default: this package's own Sources) and keeps the
        results in a cache for a day. Counts a changed file again.

          --ttl LIFE   how long results are kept: 500ms, 2s, 5m, 1h, 1d
          --list       print what is in the cache
          --clear      empty the cache
          --help       print this
        """

    private(set) var command = Command.count(Self.ownSources)
    private(set) var ttl = TimeToLive.default

    private static var ownSources: URL {
        let package = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        return package.appendingPathComponent("Sources", isDirectory: true)
    }

    init(_ arguments: [String]) throws {
        var arguments = arguments[...]
        while let argument = arguments.popFirst() {
            switch argument {
            case "--help": command = .help
            case "--list": command = .list
            case "--clear": command = .clear
            case "--ttl":
                guard let text = arguments.popFirst(), let life = Self.life(text) else {
                    throw Failure(code: 64, message: "--ttl takes a life such as 2s, 5m, 1h or 1d")
                }
                ttl = life
            case _ where argument.hasPrefix("-"):
                throw Failure(code: 64, message: "unknown option \(argument); see --help")
            default:
                command = .count(URL(fileURLWithPath: argument, isDirectory: true))
            }
        }
    }

    private static func life(_ text: String) -> TimeToLive? {
        let units: [(String, Double)] = [("ms", 0.001), ("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)]
        for (unit, seconds) in units where text.hasSuffix(unit) {
            if let number = Double(text.dropLast(unit.count)), number > 0 { return .seconds(number * seconds) }
        }
        return nil
    }
}

/// The reason why the program ends early: one line, and an exit code of `sysexits.h`.
struct Failure: Error {
    let code: Int32
    let message: String

    func exit() -> Never {
        FileHandle.standardError.write(Data("QuickStart: \(message)\n".utf8))
        Foundation.exit(code)
    }
}
