import Dispatch
import Foundation
import LarderFiles
import LarderTestSupport
import Testing

/// A running child of the sharing storm, and what its parent has done to it.
final class SharingProcess: Sendable {
    private struct State {
        var death: UInt64?
        var isKilled = false
        var stoppedSince: UInt64?
        var stops: [ClosedRange<UInt64>] = []
        var log: GrowingLog
    }

    let number: Int
    let log: URL
    let started: UInt64
    private let process: Process
    private let state: Lock<State>
    private let exited = DispatchSemaphore(value: 0)

    /// Starts a child; its usage says which words `mode` may have.
    init(_ number: Int, directory: URL, logs: URL, seed: UInt64, keys: Int, mode: [String]) throws {
        self.number = number
        log = logs.appendingPathComponent("\(number).log")
        let process = Process()
        process.executableURL = try Executables.url(of: "SharingChild")
        process.arguments = [
            directory.path, log.path, "\(seed)", "\(keys)", "\(number)", "\(getpid())",
        ]
        process.arguments? += mode
        // Every second cache has a memory tier.
        if number % 2 == 0 { process.arguments?.append("memory") }
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        let state = Lock(State(log: GrowingLog(log)))
        process.terminationHandler = { [exited] _ in
            // Its exit status has been collected, so nothing of it runs any more.
            let now = SharingSetup.now
            state.withLock { $0.death = now }
            exited.signal()
        }
        self.process = process
        self.state = state
        started = SharingSetup.now
        try process.start()
    }

    /// The moment at which the death of the process was proven.
    var death: UInt64? { state.withLock { $0.death } }
    var isStopped: Bool { state.withLock { $0.stoppedSince != nil } }
    /// The periods in which it was stopped.
    var stops: [ClosedRange<UInt64>] { state.withLock { $0.stops } }

    /// What it has logged so far.
    var progress: SharingProgress { state.withLock { $0.log.read() } }

    func stop() {
        state.withLock { state in
            guard state.death == nil, state.stoppedSince == nil else { return }
            state.stoppedSince = SharingSetup.now
            Foundation.kill(process.processIdentifier, SIGSTOP)
        }
    }

    func resume() {
        state.withLock { state in
            if state.death == nil { Foundation.kill(process.processIdentifier, SIGCONT) }
            endStop(&state)
        }
    }

    /// Kills the process and waits for its death. Returns whether it had run until then.
    func kill() -> Bool {
        let wasRunning = state.withLock { state in
            if state.isKilled { return false }
            state.isKilled = true
            if state.death != nil { return false }
            Foundation.kill(process.processIdentifier, SIGKILL)
            return true
        }
        if wasRunning || death == nil { exited.wait() }
        state.withLock { state in
            endStop(&state)
            state.log.finish()
        }
        return wasRunning && process.terminationReason == .uncaughtSignal && process.terminationStatus == SIGKILL
    }

    /// Waits until the process ends by itself. Returns its status; a signal counts above 1000.
    func awaitEnd() -> Int32 {
        exited.wait()
        return process.terminationReason == .exit ? process.terminationStatus : 1000 + process.terminationStatus
    }

    private func endStop(_ state: inout State) {
        guard let since = state.stoppedSince else { return }
        state.stops.append(since...SharingSetup.now)
        state.stoppedSince = nil
    }

    /// How the process ended.
    var ending: String {
        "process \(number) ended by itself: \(process.terminationReason == .exit ? "status" : "signal") "
            + "\(process.terminationStatus)"
    }
}

/// What a child of the sharing storm has logged so far.
struct SharingProgress {
    /// Whether it has opened the cache and begun a call, or noted an error.
    var hasLogged = false
    /// The calls that have begun.
    var calls = 0
    /// The calls that have found the disk full.
    var refused = 0
    /// Whether a call has begun and is not over.
    var isCalling = false

    mutating func take(_ line: Data) {
        hasLogged = true
        switch line.first {
        case UInt8(ascii: "?"):
            calls += 1
            isCalling = true
        case UInt8(ascii: "-"):
            refused += 1
            isCalling = false
        case UInt8(ascii: "!"): isCalling = false
        // Number 0 belongs to no call.
        case UInt8(ascii: "x"): if !line.starts(with: Data("x 0 ".utf8)) { isCalling = false }
        default: break
        }
    }
}

/// Follows a log while a process writes it: reads each byte once.
private struct GrowingLog {
    private let url: URL
    private var file: FileHandle?
    /// The beginning of a line.
    private var rest = Data()
    private var progress = SharingProgress()
    private var isFinished = false

    init(_ url: URL) { self.url = url }

    mutating func read() -> SharingProgress {
        if isFinished { return progress }
        if file == nil { file = try? FileHandle(forReadingFrom: url) }
        guard let part = try? file?.readToEnd(), !part.isEmpty else { return progress }
        var lines = (rest + part).split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        rest = Data(lines.removeLast())
        for line in lines { progress.take(line) }
        return progress
    }

    /// The process has ended: reads the rest, and closes the file.
    mutating func finish() {
        _ = read()
        isFinished = true
        try? file?.close()
        file = nil
    }
}
