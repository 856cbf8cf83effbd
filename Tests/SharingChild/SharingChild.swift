import Foundation
import Larder
import LarderFiles
import LarderTestSupport
import LarderTesting

/// Makes random calls on a few keys in an endless loop, and logs the beginning and the end of each. Its parent, a test,
/// stops and kills it; without a parent it ends by itself.
///
/// usage: SharingChild DIRECTORY LOG SEED KEYS PROCESS PARENT [memory] [full] [segments] [shared | exclusive | register...]
///
/// PARENT is the process identifier of the parent. Values are unique: each holds the number of the process. With
/// `memory` there is a memory tier before the disk; with `full` the disk is full at times; with
/// `segments` half of the values are in segments; with `shared` other processes use the directory; with `register` and the names of its faults there is no cache, see `FileRegister`.
@main
struct SharingChild {
    static func main() async {
        let arguments = CommandLine.arguments
        guard arguments.count >= 7, let seed = UInt64(arguments[3]), let keys = Int(arguments[4]),
            let process = Int(arguments[5]), let parent = pid_t(arguments[6]),
            let log = try? SharingLog(path: arguments[2])
        else {
            FileHandle.standardError.write(
                Data("usage: SharingChild DIRECTORY LOG SEED KEYS PROCESS PARENT [memory] [MODE]\n".utf8))
            exit(64)
        }
        end(with: parent)
        let directory = URL(fileURLWithPath: arguments[1])
        do {
            if arguments.contains("fork") { try ForkProbe.run(directory, isShared: arguments.contains("shared")) }
            try arguments.lazy.compactMap { AccessProbe(rawValue: $0) }.first?.run(directory)
            if let fault = arguments.lazy.compactMap({ FileRegister.Fault(rawValue: $0) }).first {
                var register = try FileRegister(directory, fault)
                await repeatCalls(process, keys, seed, log) { call, padding in
                    try register.run(call, padding: padding, process: process, keys: keys)
                }
            }
            let isFilling = arguments.contains("full")
            let configuration = SharingSetup.configuration(
                isShared: arguments.contains("shared"), hasSegments: arguments.contains("segments"),
                onEviction: { for key in $0.keys { log.evict(key) } }
            ) {
                if !isFilling || $0.error?.code != .noSpace { log.error(0, "event: \($0)") }
            }
            let disk = try open(directory, configuration, isFilling)
            let caches = SharedCaches(disk, hasMemory: arguments.contains("memory"))
            await repeatCalls(process, keys, seed, log) { try await caches.run($0, padding: $1) }
        } catch {
            log.error(0, "opening: \(error)")
            exit(1)
        }
    }

    /// Opens the directory, on a disk that is filling as soon as there is space.
    private static func open(
        _ directory: URL, _ configuration: DiskCache.Configuration, _ isFilling: Bool
    ) throws -> DiskCache {
        guard isFilling else { return try DiskCache(directory: directory, configuration: configuration) }
        while true {
            do throws(CacheError) {
                return try DiskCache(
                    directory: directory, configuration: configuration, fileSystem: FillingFileSystem(),
                    clock: SystemClock())
            } catch {
                guard error.code == .noSpace else { throw error }
                usleep(1_000)
            }
        }
    }

    /// Makes random calls for ever, and logs them.
    private static func repeatCalls(
        _ process: Int, _ keys: Int, _ seed: UInt64, _ log: SharingLog,
        run: (SharingCall, _ padding: Int) async throws -> ObservedCall.Result
    ) async -> Never {
        var generator = SeededGenerator(seed: seed)
        var number = 0
        while true {
            number += 1
            let call = SharingCall.random(keys: keys, value: process * 1_000_000 + number, using: &generator)
            let padding = generator.chance(5) ? 20_000 : Int.random(in: 0...3_000, using: &generator)
            log.begin(number, call)
            do {
                let result = try await run(call, padding)
                log.end(number, result, at: SharingSetup.now)
            } catch let error as CacheError where error.code == .noSpace {
                log.refuse(number)
            } catch {
                log.error(number, "\(error)")
            }
        }
    }

    /// Ends the process soon after its parent, which may have died before this process ran. A signal at the parent's
    /// death would come when the thread ends that started this process.
    private static func end(with parent: pid_t) {
        if getppid() != parent { exit(2) }
        Thread.detachNewThread {
            while getppid() == parent { usleep(50_000) }
            exit(2)
        }
    }
}
