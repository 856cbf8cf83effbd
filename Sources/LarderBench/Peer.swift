import Foundation

/// Another process that carries out orders. It ends when this process does, because its input ends then.
final class Peer {
    private let process = Process()
    private let (input, output) = (Pipe(), Pipe())

    /// Starts this program again; returns when it has opened the directory.
    convenience init(_ worker: Worker, _ directory: URL) throws {
        let program = Bundle.main.executableURL ?? URL(fileURLWithPath: CommandLine.arguments[0])
        try self.init(program, ["--worker", worker.rawValue, "--directory", directory.path], directory)
    }

    /// Starts a program that takes orders as this one does.
    init(_ program: URL, _ arguments: [String], _ directory: URL) throws {
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        process.executableURL = program
        process.arguments = arguments
        process.standardInput = input
        process.standardOutput = output
        // Another child process that had these ends, too, would keep this one alive.
        for end in [input.fileHandleForWriting, output.fileHandleForReading] {
            guard fcntl(end.fileDescriptor, F_SETFD, FD_CLOEXEC) == 0 else { throw BenchFailure("fcntl has failed") }
        }
        try process.run()
        try awaitAnswer()
    }

    /// Gives an order, and returns when it is carried out.
    func run(_ order: Order) throws {
        try begin(order)
        try awaitAnswer()
    }

    /// Gives an order; `awaitAnswer` waits until it is carried out.
    func begin(_ order: Order) throws {
        try input.fileHandleForWriting.write(contentsOf: Data(order.line.utf8))
    }

    func awaitAnswer() throws {
        if try output.fileHandleForReading.read(upToCount: 1)?.isEmpty ?? true {
            throw BenchFailure("another process has ended early")
        }
    }

    /// Returns when the process has closed what it has open, and ended.
    func close() throws {
        try begin(.close)
        process.waitUntilExit()
        if process.terminationStatus != 0 { throw BenchFailure("another process could not close its directory") }
    }
}
