import LarderSimulation
import Testing

/// Stories and pairs that once failed.
@Suite("A story that has failed", .storm)
struct FoundStoryTests {
    private static let day = 86_400_000

    /// In which of its steps a call is held, or its process killed, to meet the moment that mattered, and to stay right
    /// when calls get longer or shorter.
    private static let steps = 1...40

    /// A thread goes on until it waits; each access to the shared page is a step.
    private static var inTurn: Story.Setting {
        var setting = Story.Setting()
        (setting.countsAccesses, setting.switchPercent) = (true, 0)
        return setting
    }

    @Test(
        "a set with a tag, beside a clear of the tag, leaves no value that it has replaced",
        arguments: [true, false])
    func clearedSet(holdsSet: Bool) async throws {
        let set = Story.Call.set(0, value: 10, life: Self.day, isTagged: true)
        let clear = Story.Call.clearTag(expires: false)
        try await hold(
            holdsSet ? set : clear, beside: holdsSet ? clear : set,
            after: [
                .call(process: 1, caller: 0, .set(0, value: 1, life: Self.day, isTagged: false))
            ])
    }

    @Test("a clear of a tag does not end a value without it that replaces one with it")
    func replacedTag() async throws {
        let set = Story.Call.set(0, value: 10, life: Self.day, isTagged: false)
        try await hold(
            set, beside: .clearTag(expires: false),
            after: [
                .call(process: 1, caller: 0, .set(0, value: 1, life: Self.day, isTagged: true))
            ])
    }

    @Test("an opening does not wait for ever beside processes whose page was emptied")
    func emptiedPage() async throws {
        try await Stories.expectClean(acts: [
            .open(2), .run(18), .damage(.note), .call(process: 2, caller: 1, .get(1)),
            .call(process: 2, caller: 1, .close), .run(199), .open(1), .open(2),
            .call(process: 2, caller: 1, .remove(2)), .run(37), .damage(.restore(.page, position: 807870)),
        ]) {
            $0.seed = 726259
            $0.switchPercent = 10
        }
    }

    @Test("a value that a cleared one has replaced does not come back when the index is lost")
    func lostIndex() async throws {
        let (set, clear) = (
            Story.Call.set(0, value: 10, life: Self.day, isTagged: true), Story.Call.clearTag(expires: false)
        )
        for hasSegments in [false, true] {
            try await Stories.expectClean(
                (1...12).map { step in
                    var setting = Self.inTurn
                    (setting.hasSegments, setting.countsAccesses) = (hasSegments, false)
                    return Story(
                        setting,
                        [
                            .open(1), .open(2), .settle,
                            .call(process: 1, caller: 0, .set(0, value: 1, life: Self.day, isTagged: false)),
                            .call(process: 1, caller: 0, .flush), .settle,
                            .hold(process: 1, caller: 0, set, steps: step), .call(process: 2, caller: 0, clear),
                            .settle, .release, .settle,
                            .call(process: 2, caller: 0, .get(0)), .call(process: 2, caller: 0, .flush), .settle,
                            .kill(1), .kill(2),
                        ] + Story.lossOfIndex + [.open(1), .settle, .call(process: 1, caller: 0, .get(0)), .settle])
                })
        }
    }

    @Test("files of a dead process are deleted the oldest first, so none comes back when the index is lost")
    func leftFiles() async throws {
        func set(_ key: Int, _ value: Int, isTagged: Bool) -> Story.Act {
            .call(process: 1, caller: 0, .set(key, value: value, life: Self.day, isTagged: isTagged))
        }
        var stories: [Story] = []
        for step in 12...18 {
            for call in 6...10 {
                stories.append(
                    Story(
                        Story.Setting(),
                        [
                            .open(1), .open(2), .settle, set(0, 1, isTagged: true), set(2, 2, isTagged: false), .settle,
                            .call(process: 2, caller: 0, .get(0)), .settle,
                            .call(process: 1, caller: 0, .clearTag(expires: false)), .run(step), .kill(1),
                            .call(process: 2, caller: 0, .get(0)), .settle,
                            .killIn(2, calls: call), .advance(61_000), .run(2_000), .kill(2),
                        ] + Story.lossOfIndex + [.open(1), .settle, .call(process: 1, caller: 0, .get(0)), .settle]))
            }
        }
        try await Stories.expectClean(stories)
    }

    @Test("a process that follows again, while others begin journals, overlooks no change")
    func followingAgain() async throws {
        try await Stories.expectClean(
            (1...60).map { step in
                Story(
                    Self.inTurn,
                    [
                        .open(1), .settle,
                        .call(process: 1, caller: 0, .set(0, value: 1, life: Self.day, isTagged: false)),
                        .open(2), .settle, .call(process: 1, caller: 0, .close), .settle,
                        .hold(process: 2, caller: 0, .get(0), steps: step), .open(1),
                        .call(process: 1, caller: 0, .set(1, value: 2, life: Self.day, isTagged: false)),
                        .call(process: 1, caller: 0, .flush), .settle, .release, .settle,
                    ])
            })
    }

    @Test("a save forgets no removal whose older set may be in a journal that it does not replace")
    func forgottenRemoval() async throws {
        func set(_ process: Int, _ key: Int) -> Story.Act {
            .call(process: process, caller: 0, .set(key, value: 10 + key, life: Self.day, isTagged: false))
        }
        try await Stories.expectClean(
            (1...20).map { step in
                var setting = Self.inTurn
                (setting.hasSegments, setting.countsAccesses) = (true, false)
                return Story(
                    setting,
                    [
                        .open(1), .open(2), .open(3), .settle, set(1, 1), set(2, 2), .settle,
                        .hold(process: 2, caller: 0, .flush, steps: step), set(3, 0), .settle,
                        .call(process: 1, caller: 0, .remove(0)), .settle, .release, .settle,
                        .open(4), .settle, .call(process: 4, caller: 0, .get(0)), .settle,
                    ])
            })
    }

    @Test("an opening that stands still takes no value that is set during a save for damage")
    func saveWhileOpening() async throws {
        func set(_ key: Int, _ value: Int) -> Story.Call { .set(key, value: value, life: Self.day, isTagged: false) }
        func calls(of caller: Int, _ calls: [Story.Call]) -> [Story.Act] {
            calls.map { .call(process: 1, caller: caller, $0) }
        }
        var stories: [Story] = []
        for opened in 18...22 {
            for saved in 10...14 {
                var setting = Story.Setting()
                (setting.switchPercent, setting.callers) = (0, 2)
                stories.append(
                    Story(
                        setting,
                        [.open(1), .settle] + calls(of: 0, (0..<6).map { set($0, 10 + $0) } + [.flush]) + [.settle]
                            + calls(of: 0, [set(0, 20)]) + [.settle, .open(2), .run(opened), .stop(2)]
                            + [.hold(process: 1, caller: 0, .flush, steps: saved)]
                            + calls(of: 1, [set(2, 21), set(3, 22), set(0, 23)])
                            + [.settle, .release, .settle, .resume(2), .run(1)]
                            + (0..<6).map { .call(process: 2, caller: 0, .get($0)) } + [.settle]))
            }
        }
        try await Stories.expectClean(stories)
    }

    @Test("a call that waits for another process returns when its cache is closed")
    func waitingAndClosed() async throws {
        func set(_ value: Int) -> Story.Call { .setIfAbsent(0, value: value, life: Self.day, isTagged: false) }
        try await Stories.expectClean(
            Self.steps.map { step in
                var setting = Self.inTurn
                setting.callers = 2
                return Story(
                    setting,
                    [
                        .open(1), .open(2), .settle, .hold(process: 1, caller: 0, set(1), steps: step),
                        .call(process: 2, caller: 0, set(2)), .settle, .call(process: 2, caller: 1, .close), .settle,
                        .kill(1), .release, .settle,
                    ])
            })
    }

    @Test("an opening beside one that cuts off the clean-shutdown marker of a third finds no damage")
    func cutMarker() async throws {
        try await Stories.expectClean(
            (200_560..<200_600 as Range<UInt64>).map { seed in
                var setting = Story.Setting()
                (setting.countsAccesses, setting.switchPercent, setting.seed) = (true, 30, seed)
                return Story(
                    setting,
                    [
                        .open(2), .call(process: 2, caller: 0, .flush), .settle,
                        .call(process: 2, caller: 1, .close), .open(1), .settle,
                        .call(process: 1, caller: 0, .modify(0, value: 62, life: Self.day)), .open(2),
                    ])
            })
    }

    @Test("a change under way when its process was killed stays away, though an opening is killed, too")
    func killedOpenings() async throws {
        try await Stories.expectClean(
            Self.steps.map { step in
                var setting = Story.Setting()
                (setting.countsAccesses, setting.isPowerSafe, setting.switchPercent) = (true, true, 10)
                setting.seed = 303_052
                return Story(
                    setting,
                    [
                        .open(2), .settle,
                        .call(process: 2, caller: 0, .set(2, value: 1, life: Self.day, isTagged: false)), .run(6),
                        .open(1), .run(63), .kill(2), .settle, .call(process: 1, caller: 0, .get(2)), .run(3),
                        .kill(1), .open(1), .run(19), .killIn(1, calls: step),
                    ])
            })
    }

    @Test("a first opening that is killed, or is under way, keeps nobody out")
    func firstOpening() async throws {
        var stories: [Story] = []
        for step in Self.steps {
            var setting = Story.Setting()
            setting.countsAccesses = true
            setting.seed = UInt64(step)
            stories.append(Story(setting, [.open(1), .killIn(1, calls: step), .run(1_000), .open(2), .settle]))
            stories.append(Story(setting, [.open(1), .run(step), .open(2), .settle]))
        }
        try await Stories.expectClean(stories)
    }

    @Test("a file that was set aside goes after the older ones of its key")
    func olderFirst() async throws {
        var setting = Story.Setting()
        (setting.seed, setting.isPowerSafe, setting.countLimit, setting.switchPercent) = (1309, true, 3, 2)
        try await Stories.expectClean(
            (80...110).map { steps in
                Story(
                    setting,
                    [
                        .open(1),
                        .call(process: 1, caller: 0, .set(0, value: 47, life: 500, isTagged: false)), .run(68),
                        .call(process: 1, caller: 0, .set(4, value: 57, life: Self.day, isTagged: false)),
                        .advance(1500), .open(2),
                        .call(process: 2, caller: 0, .set(1, value: 60, life: Self.day, isTagged: false)),
                        .call(process: 2, caller: 0, .set(5, value: 61, life: 2000, isTagged: false)),
                        .call(process: 1, caller: 0, .set(1, value: 64, life: Self.day, isTagged: false)),
                        .call(process: 1, caller: 0, .setIfAbsent(0, value: 65, life: 500, isTagged: false)),
                        .call(process: 1, caller: 0, .set(3, value: 66, life: Self.day, isTagged: false)),
                        .advance(70_000), .kill(1), .kill(2),
                    ] + Story.lossOfIndex + [.open(1), .run(steps), .kill(1)] + Story.lossOfIndex)
            })
    }

    @Test("whoever cannot read what another has cleared drops the values in memory")
    func lostClear() async throws {
        var setting = Story.Setting()
        (setting.hasMemory, setting.countsAccesses, setting.switchPercent) = (true, true, 10)
        try await Stories.expectClean(
            (1...20).map { seed in
                setting.seed = UInt64(seed)
                return Story(
                    setting,
                    [
                        .open(1), .open(2),
                        .call(process: 1, caller: 0, .set(1, value: 9, life: Self.day, isTagged: false)),
                        .call(process: 2, caller: 0, .clear(everything: true)), .settle, .kill(2),
                    ] + Story.lossOfIndex)
            })
    }

    @Test("the tombstone of a clear stays while cleared entries are there, beside the files of a killed process")
    func clearBesideLeftFiles() async throws {
        var setting = Story.Setting()
        setting.switchPercent = 10
        try await Stories.expectClean(
            (1...40).map { steps in
                setting.seed = UInt64(steps)
                return Story(
                    setting,
                    [
                        .open(1), .call(process: 1, caller: 0, .set(1, value: 51, life: Self.day, isTagged: false)),
                        .open(2), .call(process: 2, caller: 0, .modify(2, value: 72, life: Self.day)), .run(153),
                        .kill(1),
                        .call(process: 2, caller: 0, .clear(everything: false)), .run(11),
                        .call(process: 2, caller: 0, .close), .run(steps), .kill(2),
                    ] + Story.lossOfIndex)
            })
    }

    private func hold(_ held: Story.Call, beside other: Story.Call, after before: [Story.Act]) async throws {
        try await Stories.expectClean(
            Self.steps.map { step in
                Story(
                    Self.inTurn,
                    [.open(1), .open(2), .settle] + before + [
                        .settle, .hold(process: 1, caller: 0, held, steps: step),
                        .call(process: 2, caller: 0, other), .settle, .release, .settle,
                    ])
            })
    }
}
