/// Decides how much the cache gives up when the disk is short of space: what is lacking, once.
///
/// Another program that fills the disk must not empty the cache. What has been given up is given up again only when somebody has
/// freed as much meanwhile; until then the cache makes up for its own growth alone. And it gives up nothing when all that it has
/// would not do.
struct FreeSpaceBudget: Sendable {
    /// Bytes that have been given up for a lack that may still last.
    private var given = 0
    /// Bytes still to give up.
    private(set) var owed = 0
    /// What the cache took when the disk was last looked at, less what it has given up since; bytes.
    private var space = 0
    /// By how much it may have grown before the next look; at first not at all.
    private var allowance = -1

    /// True when the cache has grown so much that it is time to look at the disk.
    mutating func mayLack(space now: Int) -> Bool {
        // What it takes after a removal is where growth begins.
        space = min(space, now)
        return now - space > allowance
    }

    /// Takes in what a look has found: what is free, and what the cache takes.
    mutating func looked(free: Int, minimum: Int, space now: Int) {
        let grown = max(0, now - space)
        space = now
        let lack = minimum - free
        guard lack > 0 else {
            if -lack >= given { given = 0 }
            owed = 0
            // Half of what is left: others store too.
            allowance = -lack / 2
            return
        }
        allowance = 0
        if given == 0, owed == 0 {
            owed = lack < now ? lack : 0
            // What could not be given counts as given: it is the same lack.
            given = lack
        } else {
            owed = min(lack, owed + grown)
        }
    }

    /// Notes what has been given up.
    mutating func gaveUp(_ bytes: Int) {
        owed = max(0, owed - bytes)
        space -= bytes
    }
}
