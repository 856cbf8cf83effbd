import Foundation
import Larder

/// Values in segments, compared with the bare appends and reads that they cannot avoid.
extension Scenario {
    private static let appending = "append the value and 250 bytes, append 250 bytes"

    static var segments: [Scenario] {
        sizes.map { set($0) } + sizes.map { set($0, overwriting: true) } + sizes.map { get($0) }
            + [100, 1 << 10].map { remove($0) } + [powerSafe(inSegments: false), powerSafe(inSegments: true)]
    }

    private static func set(_ size: Int, overwriting: Bool = false) -> Scenario {
        Scenario(
            name: overwriting ? "segment overwrite" : "segment set", size: size, unit: .us, floor: appending
        ) { folder in
            let (cache, floor) = (try folder.cache { $0.inlineThreshold = size }, try AppendFloor(folder, size: size))
            let count = Content.operations(size)
            let data = Data(Content.bytes(size))
            return Run(
                round: { round in
                    try turns(count) { number in
                        try cache.setData(data, forKey: Content.key(overwriting ? number : round * count + number))
                    } floor: { _ in
                        floor.set()
                    }
                }, close: { try cache.close() })
        }
    }

    private static func get(_ size: Int) -> Scenario {
        Scenario(name: "segment get", size: size, unit: .us, floor: "read from an open file") { folder in
            let (cache, floor) = (try folder.cache { $0.inlineThreshold = size }, try AppendFloor(folder, size: size))
            let count = Content.operations(size)
            let data = Data(Content.bytes(size))
            for number in 0..<count {
                try cache.setData(data, forKey: Content.key(number))
                floor.set()
            }
            return Run(
                round: { _ in
                    turns(count) { number in
                        precondition(cache.data(forKey: Content.key(number * 7919 % count)) != nil)
                    } floor: { number in
                        floor.get(number * 7919 % count)
                    }
                }, close: { try cache.close() })
        }
    }

    private static func remove(_ size: Int) -> Scenario {
        Scenario(
            name: "segment remove", size: size, unit: .us, floor: "read 64 bytes, write 8, append 100"
        ) { folder in
            let (cache, floor) = (try folder.cache { $0.inlineThreshold = size }, try AppendFloor(folder, size: size))
            let count = Content.operations(size)
            let data = Data(Content.bytes(size))
            return Run(
                round: { _ in
                    for number in 0..<count {
                        try cache.setData(data, forKey: Content.key(number))
                        floor.set()
                    }
                    return try turns(count) { number in
                        try cache.removeValue(forKey: Content.key(number))
                    } floor: { number in
                        floor.remove(number)
                    }
                }, close: { try cache.close() })
        }
    }

    /// Each set is on stable storage when it returns.
    private static func powerSafe(inSegments: Bool) -> Scenario {
        let size = 1 << 10
        return Scenario(
            name: inSegments ? "segment power-safe set" : "power-safe set", size: size, unit: .us, floor: appending
        ) { folder in
            let cache = try folder.cache {
                $0.durability = .powerSafe
                $0.inlineThreshold = inSegments ? size : 0
            }
            let floor = try AppendFloor(folder, size: size)
            let data = Data(Content.bytes(size))
            return Run(
                round: { round in
                    try turns(100) { number in
                        try cache.setData(data, forKey: Content.key(round * 100 + number))
                    } floor: { _ in
                        floor.set()
                    }
                }, close: { try cache.close() })
        }
    }
}

/// The bare system calls of a log of values and a journal. For one thread.
private final class AppendFloor {
    private static let record = 250

    private let log: Int32
    private let journal: Int32
    private let line = [UInt8](repeating: 120, count: record)
    private let bytes: [UInt8]
    private var buffer: [UInt8]
    private var end = 0

    init(_ folder: Folder, size: Int) throws {
        log = open(folder.floor.appendingPathComponent("log").path, O_RDWR | O_CREAT, 0o600)
        journal = open(folder.floor.appendingPathComponent("journal").path, O_WRONLY | O_CREAT | O_APPEND, 0o600)
        bytes = Content.bytes(size + Self.record)
        buffer = [UInt8](repeating: 0, count: size)
        guard log >= 0, journal >= 0 else { throw BenchFailure("cannot write to \(folder.floor.path)") }
    }

    deinit {
        close(journal)
        close(log)
    }

    func set() {
        check(pwrite(log, bytes, bytes.count, off_t(end)) == bytes.count)
        end += bytes.count
        check(write(journal, line, line.count) == line.count)
    }

    func get(_ number: Int) {
        check(pread(log, &buffer, buffer.count, off_t(number * bytes.count)) == buffer.count)
    }

    func remove(_ number: Int) {
        check(pread(log, &buffer, min(buffer.count, 64), off_t(number * bytes.count)) > 0)
        check(pwrite(log, line, 8, off_t(number * bytes.count)) == 8)
        check(write(journal, line, 100) == 100)
    }

    private func check(_ hasWorked: Bool) {
        if !hasWorked { Folder.abandon("a system call failed or wrote too little: is the disk full?") }
    }
}
