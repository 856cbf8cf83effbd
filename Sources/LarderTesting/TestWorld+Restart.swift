import Foundation
public import Larder
import LarderFiles

extension TestWorld {
    /// Kills the process: from now on no call of its caches reaches the disk. Reads may still find values in memory;
    /// writes throw.
    public func kill() {
        files.kill()
    }

    /// Arranges for the process to be killed within a call: the `number`-th from now, counted from 1 among `calls`. If
    /// that call writes bytes, a part of them may reach the disk.
    ///
    /// - Parameters:
    ///   - number: Which call. 1: the next.
    ///   - calls: The calls that count. Default: all.
    public func kill(inCall number: Int, of calls: FileCalls = .all) {
        faults.add(.kill, in: calls, number: number)
    }

    /// Whether the process has been killed and not restarted.
    public var isKilled: Bool { files.isDead }

    /// Kills the process unless it has been killed, and begins another: caches opened from now on find the disk as the
    /// killed process left it. Caches of the old process no longer reach the disk, and arranged faults end. The time
    /// does not change.
    public func restart() {
        restart { $0.restarted() }
    }

    /// Cuts the power, and begins another process: any part of the unsynced writes may be lost, in any order.
    ///
    /// - Parameter seed: Determines the loss, which is the same for the same seed and the same earlier calls.
    public func powerCut(seed: UInt64) {
        restart { files in
            var generator = SeededGenerator(seed: seed)
            return files.restarted(with: files.imageAfterPowerCut(using: &generator))
        }
    }

    private func restart(_ next: (MemoryFileSystem) -> MemoryFileSystem) {
        state.withLock { $0.start(on: next($0.files), clock, simulator) }
    }

    /// Deletes the index of a cache: its manifest and its journals. Call it between ``kill()`` and ``restart()``, to
    /// check that the loss costs time but no entries.
    ///
    /// - Parameter name: The name of the cache. Default: `cache`.
    public func loseIndex(of name: String = "cache") {
        changeIndex(of: name) { $0.remove(at: $1) }
    }

    /// Flips a bit in the middle of each file of the index of a cache. Call it between ``kill()`` and ``restart()``.
    ///
    /// - Parameter name: The name of the cache. Default: `cache`.
    public func damageIndex(of name: String = "cache") {
        changeIndex(of: name) { $0.flipBit(at: $1) { $0 / 2 } }
    }

    private func changeIndex(of name: String, _ change: (inout MemoryImage, String) -> Void) {
        let path = Self.directory(name).path
        files.tamper { image in
            for file in image.names(at: path) where file.hasPrefix("manifest") || file.hasPrefix("journal-") {
                change(&image, path + "/" + file)
            }
        }
    }

    /// Flips a bit of a value in its file on disk; the next read from disk finds the damage, and is a miss.
    ///
    /// - Parameters:
    ///   - key: The key of the value.
    ///   - cache: The cache of this world, with its namespace.
    /// - Returns: False when the cache has no such entry.
    @discardableResult
    public func damageValue(forKey key: String, in cache: DiskCache) -> Bool {
        guard let file = cache.entryFileName(forKey: key) else { return false }
        files.tamper { $0.flipBit(at: cache.directory.path + "/entries/" + file) { _ in 0 } }
        return true
    }

    /// Flips a bit of a value in its file on disk; the next read from disk finds the damage, and is a miss. A value in
    /// memory is unaffected.
    ///
    /// - Parameters:
    ///   - key: The key of the value.
    ///   - cache: The cache of this world.
    /// - Returns: False when the cache has no such entry on disk.
    @discardableResult
    public func damageValue<Value>(forKey key: String, in cache: Cache<Value>) -> Bool {
        cache.disk.map { damageValue(forKey: key, in: $0) } ?? false
    }
}
