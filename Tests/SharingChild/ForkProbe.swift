import Foundation
import Larder
import LarderFiles
import LarderTestSupport

/// `fork` of the C library, which Swift hides: it is rarely right, but programs do it.
@_silgen_name("fork")
private func forkProcess() -> pid_t

/// Forks while a directory is open: the child must not act in the name of its parent.
enum ForkProbe {
    private static let children: Int32 = 5
    /// The child, while there is one. Read by a signal handler.
    nonisolated(unsafe) private static var child: pid_t = 0
    /// What the parent is doing: 0 before the forks, 1 in one, 2 afterwards. The same.
    nonisolated(unsafe) private static var step: Int32 = 0

    /// Ends the process: 0 when all is right, or the number of what is not.
    static func run(_ directory: URL, isShared: Bool) throws -> Never {
        // Ends a child that hangs in Swift's runtime, as a thread of its parent was in there during the fork, and a
        // parent that hangs itself.
        signal(SIGALRM) { _ in
            if ForkProbe.child <= 0 { _exit(25 + ForkProbe.step) }
            kill(ForkProbe.child, SIGKILL)
        }
        alarm(60)
        let configuration = SharingSetup.configuration(isShared: isShared) { _ in }
        let cache = try DiskCache(
            directory: directory, configuration: configuration)
        try cache.setString("a", forKey: "k")
        // Swift's runtime takes locks of its own when it does something for the first time, and no fork waits for them.
        // So the parent does first what its children will do.
        let warm = directory.appendingPathExtension("warm")
        let closed = try DiskCache(directory: warm, configuration: configuration)
        try closed.close()
        _ = failure(inChildOf: closed, warm, configuration, isShared)
        // A child lacks the thread that holds this lock nearly always.
        let lock = ProcessLock(0)
        Thread.detachNewThread {
            while true {
                lock.withLock { rounds in
                    rounds += 1
                    usleep(100)
                }
            }
        }
        while lock.withLock({ $0 }) < 100 { usleep(1_000) }
        var stuck: Int32 = 0
        for _ in 0..<children {
            alarm(20)
            step = 1
            child = forkProcess()
            if child == 0 {
                lock.withLock { $0 += 1 }
                _exit(failure(inChildOf: cache, directory, configuration, isShared))
            }
            var status: Int32 = 0
            waitpid(child, &status, 0)
            child = 0
            if status & 0x7f == SIGKILL {
                stuck += 1
            } else if status != 0 {
                exit(status & 0x7f == 0 ? status >> 8 : 20)
            }
        }
        alarm(60)
        step = 2
        if stuck > children / 2 { exit(24) }
        if cache.string(forKey: "k") != "a" { exit(21) }
        if (cache.string(forKey: "own") != nil) != isShared { exit(23) }
        try cache.setString("b", forKey: "k")
        if cache.string(forKey: "k") != "b" { exit(22) }
        try cache.close()
        exit(0)
    }

    private static func failure(
        inChildOf cache: DiskCache, _ directory: URL, _ configuration: DiskCache.Configuration, _ isShared: Bool
    ) -> Int32 {
        if cache.string(forKey: "k") != nil || cache.hasValue(forKey: "k") { return 10 }
        let calls: [() throws -> Void] = [
            { try cache.setString("c", forKey: "k") }, { try cache.removeValue(forKey: "k") },
            { try cache.removeAll() }, { try cache.flush() }, { try cache.close() },
        ]
        for (number, call) in calls.enumerated() {
            do {
                try call()
                return 11 + Int32(number)
            } catch {
                if (error as? CacheError)?.code != .closed { return 16 }
            }
        }
        // It may open the directory itself, like any other process.
        do {
            let own = try DiskCache(directory: directory, configuration: configuration)
            try own.setString("c", forKey: "own")
            return isShared && own.string(forKey: "k") == "a" ? 0 : 17
        } catch {
            return !isShared && error.code == .directoryInUse ? 0 : 18
        }
    }
}
