import LarderFiles

/// Decides how much the cache gives up when the disk is short of space. It answers each shortage once.
///
/// Another program that fills the disk must not empty the cache. After giving up some bytes, the cache gives up that
/// many again only if as many were freed in between; until then it compensates only for its own growth. It gives up
/// nothing if even all its bytes would not be enough. All sizes are bytes on disk.
final class FreeSpaceBudget: Sendable {
    private struct State: Sendable {
        /// Given up for a shortage that may still last.
        var given = 0
        /// Still to give up.
        var owed = 0
        /// The size of the cache at the last measurement, less the bytes given up since.
        var size = 0
        /// True from the first eviction until its bytes are noted.
        var isGivingUp = false
        /// The growth after which the next measurement is due. Initially there is none.
        var allowance = -1
    }

    private let state = Lock(State())

    /// Forgets everything, for another minimum.
    func restart() {
        state.withLock { $0 = State() }
    }

    /// Bytes still to give up.
    var owed: Int { state.withLock { $0.owed } }

    /// True when the cache has grown so much that the free space has to be measured.
    func mayLack(size now: Int) -> Bool {
        state.withLock { state in
            // The size may leave out bytes that are about to be noted, and would then be taken from it twice.
            if state.isGivingUp { return true }
            // After a removal, growth counts from the smaller size.
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
                // Half of the rest: other programs use the disk too.
                state.allowance = -lack / 2
                return
            }
            state.allowance = 0
            if state.given == 0, state.owed == 0 {
                state.owed = lack < now ? lack : 0
                // A shortage that cannot be met counts as met: next time it is the same shortage.
                state.given = lack
            } else {
                state.owed = min(lack, state.owed + grown)
            }
        }
    }

    /// Entries are about to be evicted.
    func beginGivingUp() {
        state.withLock { $0.isGivingUp = true }
    }

    /// Notes bytes that were given up.
    func noteGivenUp(_ bytes: Int) {
        state.withLock { state in
            state.isGivingUp = false
            state.owed = max(0, state.owed - bytes)
            state.size -= bytes
        }
    }
}
