import LarderSimulation
import Testing

/// Stories and pairs that once failed.
@Suite("A story that has failed", .storm)
struct FoundStoryTests {
    private static let day = 86_400_000

    /// In which of its steps a call is held, or its process killed, to meet the moment that mattered, and to stay right
    /// when calls get longer or shorter.
    private static let steps = 1...40

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

    private func hold(_ held: Story.Call, beside other: Story.Call, after before: [Story.Act]) async throws {
        var setting = Story.Setting()
        setting.countsAccesses = true
        setting.switchPercent = 0
        try await Stories.expectClean(
            Self.steps.map { step in
                Story(
                    setting,
                    [.open(1), .open(2), .settle] + before + [
                        .settle, .hold(process: 1, caller: 0, held, steps: step),
                        .call(process: 2, caller: 0, other), .settle, .release, .settle,
                    ])
            })
    }
}
