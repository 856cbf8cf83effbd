/// What processes do with one directory, and what befalls them. Together with the engine it decides the whole run.
package struct Story: Codable, Hashable, Sendable {
    package var setting: Setting
    package var acts: [Act]

    package init(_ setting: Setting, _ acts: [Act]) {
        self.setting = setting
        self.acts = acts
    }

    /// What does not change during a story.
    package struct Setting: Codable, Hashable, Sendable {
        /// Decides the order of steps, the parts that power cuts lose, and the bytes that damage hits.
        package var seed: UInt64 = 1
        package var isShared = true
        /// Whether long values have files and short ones are in segments; otherwise all have files.
        package var hasSegments = false
        /// Whether processes read through the memory tier.
        package var hasMemory = false
        package var slides = false
        package var isPowerSafe = false
        package var isPropertyList = false
        package var countLimit: Int?
        /// Whether each access to the shared page is a step, too.
        package var countsAccesses = false
        /// Of a hundred steps, how many are followed by the draw of another thread.
        package var switchPercent = 20
        /// The threads that call in each process.
        package var callers = 1

        package init() {}
    }

    package enum Act: Codable, Hashable, Sendable {
        /// A process opens the directory; nothing if it is open there.
        case open(Int)
        case call(process: Int, caller: Int, Call)
        /// The same; it makes so many steps, and waits there until `release`.
        case hold(process: Int, caller: Int, Call, steps: Int)
        case release
        /// The threads that are ready make so many steps.
        case run(Int)
        /// All run until nothing is ready.
        case settle
        /// Milliseconds.
        case advance(Int)
        case kill(Int)
        /// The process is killed in its n-th call from now.
        case killIn(Int, calls: Int)
        /// As by SIGSTOP and SIGCONT.
        case stop(Int)
        case resume(Int)
        case powerCut
        /// The disk is full, or has room again.
        case fill(Bool)
        case damage(Damage)
    }

    package enum Call: Codable, Hashable, Sendable {
        case get(Int)
        /// Life in milliseconds.
        case set(Int, value: Int, life: Int, isTagged: Bool)
        case setIfAbsent(Int, value: Int, life: Int, isTagged: Bool)
        case modify(Int, value: Int, life: Int)
        case fetch(Int, value: Int, life: Int)
        case remove(Int)
        case renew(Int, life: Int)
        case expire(Int)
        /// The keys without a namespace, or all.
        case clear(everything: Bool)
        case clearTag(expires: Bool)
        case expireAll
        case removeExpired
        case trim(Int)
        case flush
        case close
    }

    /// Damage to a file of the index, or of values. `position` chooses the file and the place in it.
    package enum Damage: Codable, Hashable, Sendable {
        case flipBit(File, position: Int)
        /// Cut at a line, or anywhere.
        case cut(File, position: Int, atLine: Bool)
        case delete(File, position: Int)
        /// Replaced by what it was when the file was last noted.
        case restore(File, position: Int)
        /// Notes what the files are.
        case note

        package enum File: String, Codable, CaseIterable, Sendable {
            case manifest, journal, page, segment, entry
        }
    }
}

extension Story {
    /// Deletes the manifest and the journals, of which there are no more.
    package static let lossOfIndex: [Act] =
        Array(repeating: .damage(.delete(.manifest, position: 0)), count: 2)
        + Array(repeating: .damage(.delete(.journal, position: 0)), count: 16)

    /// A test that runs the story.
    package func test(_ finding: String) -> String {
        func text(_ value: some Any) -> String {
            String(describing: value).replacing("LarderSimulation.Story.Call.", with: ".")
                .replacing("LarderSimulation.Story.Damage.File.", with: ".")
                .replacing("LarderSimulation.Story.Damage.", with: ".")
        }
        let settings = Mirror(reflecting: setting).children.compactMap { child -> String? in
            guard let name = child.label else { return nil }
            let initial = Mirror(reflecting: Setting()).children.first { $0.label == name }.map { "\($0.value)" }
            let value = "\(child.value)".replacing("Optional(", with: "").replacing(")", with: "")
            return initial == "\(child.value)" ? nil : "            $0.\(name) = \(value)\n"
        }
        let lines = acts.map { "            .\(text($0)),\n" }
        return """
                @Test("story \(setting.seed): \(finding.replacing("\"", with: "'"))")
                func story\(setting.seed)() async throws {
                    try await Stories.expectClean(acts: [
            \(lines.joined())        ]) {
            \(settings.joined())        }
                }
            """
    }
}
