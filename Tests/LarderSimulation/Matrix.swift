/// Every pair of changes, the first one held at each of its steps while the second is made.
///
/// Small and complete: it finds what random stories meet once in millions of calls.
package struct Matrix {
    private typealias Call = Story.Call

    /// Of the steps, every `stride`-th is tried. 1: all.
    package let stride: Int
    /// The first step is `offset`, for each pair another.
    package var offset: (Int) -> Int

    package init(stride: Int, offset: @escaping (Int) -> Int) {
        self.stride = stride
        self.offset = offset
    }

    private static let day = 86_400_000

    /// The changes of key 0, and the read that fetches. They store `value`, if anything.
    private static let changes: [(name: String, call: @Sendable (_ value: Int) -> Call)] = [
        ("set", { .set(0, value: $0, life: day, isTagged: false) }),
        ("set with a tag", { .set(0, value: $0, life: day, isTagged: true) }),
        ("set of a long value", { .set(0, value: 3 * $0, life: day, isTagged: false) }),
        ("set if absent", { .setIfAbsent(0, value: $0, life: day, isTagged: false) }),
        ("modification", { .modify(0, value: $0, life: day) }),
        ("fetch", { .fetch(0, value: $0, life: day) }),
        ("removal", { _ in .remove(0) }),
        ("renewal", { _ in .renew(0, life: 2 * day) }),
        ("expiry", { _ in .expire(0) }),
        ("clear", { _ in .clear(everything: false) }),
        ("clear of all namespaces", { _ in .clear(everything: true) }),
        ("expiry of all namespaces", { _ in .expireAll }),
        ("clear of the tag", { _ in .clearTag(expires: false) }),
        ("expiry of the tag", { _ in .clearTag(expires: true) }),
        ("sweep", { _ in .removeExpired }),
        ("trim", { _ in .trim(1) }),
        ("save", { _ in .flush }),
    ]

    /// The number of pairs with all their circumstances.
    package static var count: Int { changes.count * changes.count * 3 * 8 }

    /// Tries one of them; returns the number of stories, and the first that fails.
    package func play(_ number: Int) -> (stories: Int, failure: (name: String, story: Story, finding: String)?) {
        var rest = number
        func choose(_ count: Int) -> Int {
            defer { rest /= count }
            return rest % count
        }
        let (first, second) = (Self.changes[choose(Self.changes.count)], Self.changes[choose(Self.changes.count)])
        let state = choose(3)
        let (areTwo, isCold, hasSegments) = (choose(2) == 1, choose(2) == 1, choose(2) == 1)
        var setting = Story.Setting()
        setting.countsAccesses = areTwo
        setting.callers = areTwo ? 1 : 2
        setting.hasSegments = hasSegments
        setting.isShared = areTwo
        setting.switchPercent = 0
        setting.seed = UInt64(number)
        let opening: [Story.Act] = (areTwo ? [.open(1), .open(2)] : [.open(1)]) + [.settle]
        var acts = opening
        if state > 0 {
            acts.append(.call(process: 1, caller: 0, .set(0, value: 1, life: Self.day, isTagged: state == 2)))
        }
        acts += [.call(process: 1, caller: 0, .set(2, value: 2, life: Self.day, isTagged: false)), .settle]
        if isCold {
            acts.append(.call(process: 1, caller: 0, .close))
            if areTwo { acts.append(.call(process: 2, caller: 0, .close)) }
            acts += [.settle] + opening
        }
        let name =
            "\(first.name), held beside a \(second.name), "
            + "\(["absent", "untagged", "tagged"][state]), \(areTwo ? "two processes" : "one process"), "
            + "\(isCold ? "cold" : "loaded"), \(hasSegments ? "segments" : "files")"
        var (stories, step) = (0, max(1, offset(number)))
        while true {
            let held: [Story.Act] = [
                .hold(process: 1, caller: 0, first.call(10), steps: step),
                .call(process: areTwo ? 2 : 1, caller: areTwo ? 0 : 1, second.call(20)), .settle, .release, .settle,
            ]
            let story = Story(setting, acts + held)
            let stage = Stage(story)
            let findings = stage.play()
            stories += 1
            if let finding = findings.first { return (stories, ("step \(step) of a \(name)", story, finding)) }
            if !stage.wasHeld { return (stories, nil) }
            step += stride
        }
    }
}
