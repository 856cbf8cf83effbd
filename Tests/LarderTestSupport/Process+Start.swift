package import Foundation
import LarderFiles

extension Process {
    private static let turn = Lock(())

    /// Starts a process while no other one is being started.
    ///
    /// On Linux, Foundation learns of the end of a process from a socket which that process holds open. Another one
    /// that is started at the same moment inherits the socket, and then the end is not noticed before that of the
    /// other: two storms that wait for a killed process each would wait for each other's living ones, for ever.
    package func start() throws {
        try Self.turn.withLock { _ in try run() }
    }
}
