import Foundation
import Larder
import LarderTestSupport
import LarderTesting

/// Stores, copies, removes and renews in an endless loop. Prints each change to standard output before it begins and
/// after it returns. Its parent, a test, kills it.
///
/// usage: KillChild DIRECTORY SEED THRESHOLD shared|alone
///
/// THRESHOLD is the size, in bytes, up to which values are in segments.
@main
struct KillChild {
    static func main() throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 5, let seed = UInt64(arguments[2]), let threshold = Int(arguments[3]) else {
            FileHandle.standardError.write(Data("usage: KillChild DIRECTORY SEED THRESHOLD shared|alone\n".utf8))
            exit(64)
        }
        var configuration = KillChange.configuration(inlineThreshold: threshold, isShared: arguments[4] == "shared")
        configuration.saveDelay = .milliseconds(5)
        let cache = try DiskCache(directory: URL(fileURLWithPath: arguments[1]), configuration: configuration)
        var generator = SeededGenerator(seed: seed)
        for number in 1... {
            let change = KillChange.random(number: number, seed: seed, using: &generator)
            try change.announce("?")
            try change.apply(to: cache)
            try change.announce("!")
        }
    }
}

extension KillChange {
    /// Writes one line with one call: a kill leaves it whole or not at all.
    func announce(_ mark: String) throws {
        FileHandle.standardOutput.write(Data("\(mark) \(description)\n".utf8))
    }

    func apply(to cache: DiskCache) throws {
        switch self {
        case .set(let key, let version, let size):
            try cache.namespace(Self.namespace(of: key)).setData(
                Self.payload(key: key, version: version, size: size), forKey: key, tags: [Self.tag(ofVersion: version)])
        case .copy(let key, let version, let size):
            let file = cache.directory.deletingLastPathComponent().appendingPathComponent("source")
            try Self.payload(key: key, version: version, size: size).write(to: file)
            try cache.namespace(Self.namespace(of: key)).copyFile(
                at: file, forKey: key, tags: [Self.tag(ofVersion: version)])
        case .remove(let key): try cache.namespace(Self.namespace(of: key)).removeValue(forKey: key)
        case .renew(let key, let seconds):
            try cache.namespace(Self.namespace(of: key)).setTimeToLive(.seconds(Double(seconds)), forKey: key)
        case .clear: try cache.namespace("").removeAll()
        case .clearNamespaces: try cache.removeAll()
        case .clearTag(let tag): try cache.removeAll(tagged: tag)
        case .expire(let key): try cache.namespace(Self.namespace(of: key)).expireValue(forKey: key)
        case .expireAll: try cache.namespace("").expireAll()
        case .expireTag(let tag): try cache.expireAll(tagged: tag)
        case .flush: try cache.flush()
        }
    }
}
