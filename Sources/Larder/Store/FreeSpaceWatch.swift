/// Decides how much the cache gives up when the disk is short of space: what is lacking, once.
///
/// Another program that fills the disk must not empty the cache: until there is enough space again, only what the cache itself
/// has stored since is given up as well.
struct FreeSpaceWatch: Sendable {
    private var hasGivenUp = false
    /// Bytes still to give up.
    private(set) var owed = 0
    /// Bytes stored since the last look.
    private var stored = 0
    /// Bytes that may be stored before the next look. At first none.
    private var allowance = 0

    /// Notes what has been stored; true when it is time to look at the disk.
    mutating func stored(_ bytes: Int) -> Bool {
        stored += bytes
        return stored > allowance
    }

    /// Takes in what a look has found.
    mutating func looked(free: Int, minimum: Int) {
        defer { stored = 0 }
        let lack = minimum - free
        guard lack > 0 else {
            hasGivenUp = false
            owed = 0
            // Half of what is left: others store too.
            allowance = -lack / 2
            return
        }
        allowance = 0
        owed = hasGivenUp ? min(lack, stored) : lack
        hasGivenUp = true
    }

    /// Notes what has been given up.
    mutating func gaveUp(_ bytes: Int) {
        owed = max(0, owed - bytes)
    }
}
