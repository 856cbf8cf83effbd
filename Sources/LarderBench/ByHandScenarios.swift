import Foundation
import Larder
import LarderFiles

/// A program without a cache library: Foundation's files and `NSCache`.
extension Scenario {
    static var byHand: [Scenario] {
        sizes.map { write($0) } + sizes.map { read($0) } + [nsCacheGet, nsCacheSet]
    }

    private static func write(_ size: Int) -> Scenario {
        Scenario(
            name: "Data.write(.atomic)", size: size, unit: .us, floor: Floor.setting(size, hashing: false)
        ) { folder in
            let floor = try Floor(folder, size: size, hashing: false)
            try FileManager.default.createDirectory(at: folder.own, withIntermediateDirectories: true)
            let (bytes, count) = (Content.bytes(size), Content.operations(size) / 4)
            let data = Data(bytes)
            return Run { round in
                try turns(count) { number in
                    try data.write(to: folder.own.appendingPathComponent("\(round * count + number)"), options: .atomic)
                } floor: { number in
                    floor.set("\(round * count + number)", bytes)
                }
            }
        }
    }

    private static func read(_ size: Int) -> Scenario {
        Scenario(name: "Data(contentsOf:)", size: size, unit: .us, floor: Floor.getting(size, hashing: false)) {
            folder in
            let floor = try Floor(folder, size: size, hashing: false)
            try FileManager.default.createDirectory(at: folder.own, withIntermediateDirectories: true)
            let (bytes, count) = (Content.bytes(size), Content.operations(size))
            for number in 0..<count {
                try Data(bytes).write(to: folder.own.appendingPathComponent("\(number)"))
                floor.set("\(number)", bytes)
            }
            return Run { _ in
                try turns(count) { number in
                    let url = folder.own.appendingPathComponent("\(number * 7919 % count)")
                    let data = try Data(contentsOf: url)
                    precondition(data.count == size)
                } floor: { number in
                    floor.get("\(number * 7919 % count)")
                }
            }
        }
    }

    private static var nsCacheGet: Scenario {
        comparison("NSCache get", of: NSCacheBox(), storing: { $0.set($2, $1) }) { cache, key, _ in
            precondition(cache.get(key) != nil)
        } floor: { dictionary, key, _ in
            precondition(dictionary.withLock { $0[key] } != nil)
        }
    }

    private static var nsCacheSet: Scenario {
        comparison("NSCache set", of: NSCacheBox(), storing: { $0.set($2, $1) }) { cache, key, value in
            cache.set(value, key)
        } floor: { dictionary, key, value in
            replace(key, value, in: dictionary)
        }
    }
}

/// `NSCache` may be called from all threads.
private final class NSCacheBox: @unchecked Sendable {
    private final class Box {
        let data: Data

        init(_ data: Data) {
            self.data = data
        }
    }

    private let cache = NSCache<NSString, Box>()

    func set(_ data: Data, _ key: String) {
        cache.setObject(Box(data), forKey: NSString(string: key))
    }

    func get(_ key: String) -> Data? {
        cache.object(forKey: NSString(string: key))?.data
    }
}
