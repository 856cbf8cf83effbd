import LarderFiles

/// Decides how much the cache gives up when the disk is short of space: each lack once.
///
/// Another program that fills the disk must not empty the cache. After giving up some bytes, the cache gives up as much
/// again only when somebody has freed that much meanwhile; until then it makes up for its own growth alone. It gives up
/// nothing when all that it has would not be enough. All sizes are bytes on disk.
final class FreeSpaceBudget: Sendable {
    private struct State: Sendable {
        /// Given up for a lack that may still last.
        var given = 0
        /// Still to give up.
        var owed = 0
        /// The size of the cache at the last look at the disk, less the bytes given up since.
        var size = 0
        /// Growth after which the next look is due; at first none.
        var allowance = -1
    }

    private let state = Lock(State())

    /// Bytes still to give up.
    var owed: Int { state.withLock { $0.owed } }

    /// True when the cache has grown so much that the free space has to be measured.
    func mayLack(size now: Int) -> Bool {
        state.withLock { state in
            // After a removal, growth begins at the smaller size.
            state.size = min(state.size, now)
            return now - state.size > state.allowance
        }
    }

    /// Notes a measurement: the free space, and the size of the cache.
    func note(free: Int, minimum: Int, size now: Int) {
        state.withLock { state in
            let grown = max(0, now - state.size)
            state.size = now
            let lack = minimum - free
            guard lack > 0 else {
                if -lack >= state.given { state.given = 0 }
                state.owed = 0
                // Half of the rest: others store too.
                state.allowance = -lack / 2
                return
            }
            state.allowance = 0
            if state.given == 0, state.owed == 0 {
                state.owed = lack < now ? lack : 0
                // A lack that cannot be met counts as met: it is the same lack next time.
                state.given = lack
            } else {
                state.owed = min(lack, state.owed + grown)
            }
        }
    }

    /// Notes bytes that were given up.
    func noteGivenUp(_ bytes: Int) {
        state.withLock { state in
            state.owed = max(0, state.owed - bytes)
            state.size -= bytes
        }
    }
}
