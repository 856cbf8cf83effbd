import Foundation
import LarderFiles
import LarderTestSupport

/// The processes of a storm: those that run, and those that have ended.
final class SharingChildren {
    let directory: URL
    private let logs: URL
    private let seed: UInt64
    private let keys: Int
    private let mode: [String]
    /// All processes, in the order of their numbers.
    private(set) var all: [SharingProcess] = []
    private(set) var running: [SharingProcess] = []
    /// The calls that processes which have ended had begun.
    private var endedCalls = 0
    /// The processes that ended without being killed.
    private(set) var failures: [String] = []

    init(directory: URL, logs: URL, seed: UInt64, keys: Int, mode: [String]) {
        self.directory = directory
        self.logs = logs
        self.seed = seed
        self.keys = keys
        self.mode = mode
    }

    /// Starts one more process, with the next number.
    func start() throws {
        let number = all.count + 1
        let child = try SharingProcess(
            number, directory: directory, logs: logs, seed: seed &* 10_007 &+ UInt64(number), keys: keys,
            mode: mode)
        all.append(child)
        running.append(child)
    }

    /// The calls that all processes have begun so far.
    var calls: Int { running.reduce(endedCalls) { $0 + $1.progress.calls } }

    /// Kills a process and waits for its death. Returns whether it ran until then.
    func kill(_ child: SharingProcess) -> Bool {
        running.removeAll { $0 === child }
        let wasRunning = child.kill()
        endedCalls += child.progress.calls
        if wasRunning { return true }
        failures.append(child.ending)
        return false
    }

    func killAll() {
        for child in running { _ = kill(child) }
    }
}

/// Texts that several threads note.
final class FailureNotes: Sendable {
    private let notes = Lock<[String]>([])

    var all: [String] { notes.withLock { $0 } }

    func add(_ note: String) { notes.withLock { $0.append(note) } }
}
