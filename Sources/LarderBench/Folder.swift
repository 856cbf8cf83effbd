import Foundation
import Larder
import LarderFiles

/// The directory of one scenario: one part for the cache, one for the floor.
struct Folder: Sendable {
    let url: URL

    var own: URL { url.appendingPathComponent("cache", isDirectory: true) }
    var floor: URL { url.appendingPathComponent("floor", isDirectory: true) }

    /// The existing directories, for an early exit.
    private static let all = Lock<[URL]>([])

    init(in place: URL) throws {
        let url = place.appendingPathComponent("larder-bench-\(UUID().uuidString)", isDirectory: true)
        self.url = url
        Self.all.withLock { $0.append(url) }
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false)
        try FileManager.default.createDirectory(at: floor, withIntermediateDirectories: false)
    }

    func cache(_ configure: (inout DiskCache.Configuration) -> Void = { _ in }) throws -> DiskCache {
        var configuration = DiskCache.Configuration()
        configure(&configuration)
        return try DiskCache(directory: own, configuration: configuration)
    }

    func remove() {
        try? FileManager.default.removeItem(at: url)
        Self.all.withLock { all in all.removeAll { $0 == url } }
    }

    /// Ends the program, and deletes everything written for a measurement.
    static func abandon(_ reason: String, code: Int32 = 1) -> Never {
        // Another process deletes after this one has exited, because threads of this one may still be writing.
        let cleaner = Process()
        cleaner.executableURL = URL(fileURLWithPath: "/bin/sh")
        cleaner.arguments =
            ["-c", #"while kill -0 "$0" 2>/dev/null; do sleep 0.1; done; rm -rf "$@""#, "\(getpid())"]
            + all.withLock { $0.map(\.path) }
        try? cleaner.run()
        Progress.clear()
        try? FileHandle.standardError.write(contentsOf: Data("larder-bench: \(reason)\n".utf8))
        exit(code)
    }

    /// Ensures that an interrupted program does not leave gigabytes behind.
    static func cleanUpWhenInterrupted() {
        signal(SIGPIPE, SIG_IGN)
        for number in [SIGINT, SIGTERM, SIGHUP] {
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { abandon("interrupted", code: 128 + number) }
            source.activate()
            sources.withLock { $0.append(Unshared(value: source)) }
        }
    }

    private static let sources = Lock<[Unshared<any DispatchSourceSignal>]>([])
}
