/// Finds the fewest acts of a story that still fails.
package enum Shrinker {
    /// Returns a story that fails and none of whose parts can be left out, and what it finds.
    package static func shrink(_ story: Story, _ finding: String) -> (Story, String) {
        var (best, found) = (story, finding)
        var length = max(1, best.acts.count / 2)
        while true {
            var isShorter = false
            var start = 0
            while start < best.acts.count {
                var candidate = best
                candidate.acts.removeSubrange(start..<min(start + length, best.acts.count))
                if let finding = Stage(candidate).play().first, isLike(finding, found) {
                    (best, found, isShorter) = (candidate, finding, true)
                } else {
                    start += length
                }
            }
            if length == 1, !isShorter { return simplified(best, found) }
            length = max(1, length / 2)
        }
    }

    /// Whether two findings are of one kind: both are contradictions, or they begin alike.
    private static func isLike(_ one: String, _ other: String) -> Bool {
        if one.hasPrefix("key ") { return other.hasPrefix("key ") }
        return one.filter { !$0.isNumber }.prefix(12) == other.filter { !$0.isNumber }.prefix(12)
    }

    private static func simplified(_ story: Story, _ finding: String) -> (Story, String) {
        var (best, found) = (story, finding)
        let changes: [(inout Story.Setting) -> Void] = [
            { $0.countsAccesses = false }, { $0.hasMemory = false }, { $0.hasSegments = false }, { $0.slides = false },
            { $0.isPowerSafe = false }, { $0.isPropertyList = false }, { $0.countLimit = nil }, { $0.callers = 1 },
            { $0.isShared = true },
        ]
        for change in changes {
            var candidate = best
            change(&candidate.setting)
            if candidate != best, let finding = Stage(candidate).play().first, isLike(finding, found) {
                (best, found) = (candidate, finding)
            }
        }
        return (best, found)
    }
}
