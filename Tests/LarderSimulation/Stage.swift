import Foundation
import Larder
import LarderFiles
import LarderTesting

/// Plays a story, and checks what everybody has seen.
///
/// `@unchecked Sendable`: the threads of a simulation take turns.
package final class Stage: @unchecked Sendable {
    static let keys = 6
    /// The thousands of steps after which a story hangs.
    private static let longest = 500

    let story: Story
    let simulator: Simulator
    let time = ManualClock()
    /// Any process of the disk.
    private(set) var files: MemoryFileSystem
    private var generator: SeededGenerator
    /// The processes that live, by their numbers in the story.
    var places: [Int: SimulatedProcess] = [:]
    private(set) var all: [SimulatedProcess] = []
    /// Counts what was observed: a strictly increasing time.
    private var moment = 0
    /// The calls that have begun.
    var begun: [Begun] = []
    var records = Records()
    private(set) var changes: [(Int, History.Change)] = []
    private(set) var hasDamage = false
    /// What files were when it was noted.
    var noted: [String: [UInt8]] = [:]
    /// The last call that was to be held had not ended by then.
    private(set) var hasHeld = false
    private(set) var wasHeld = false
    /// Every process has had the time to recover.
    var isEnding = false
    private(set) var findings: [String] = []

    package init(_ story: Story, keepsTrace: Bool = false) {
        self.story = story
        simulator = Simulator(seed: story.setting.seed)
        simulator.switchPercent = story.setting.switchPercent
        simulator.tracedLines = keepsTrace ? .max : 0
        files = MemoryFileSystem(simulator: simulator)
        generator = SeededGenerator(seed: story.setting.seed ^ 0xDA3E_39CB_94B9_5BDB)
    }

    package var trace: [String] { simulator.trace }
    package var traceHash: UInt64 { simulator.traceHash }
    package var steps: UInt64 { simulator.steps }
    package var calls: Int { begun.count }

    /// Plays it to its end. Returns what is wrong.
    package func play() -> [String] {
        for act in story.acts {
            play(act)
            if !findings.isEmpty { break }
        }
        if findings.isEmpty { finish() }
        if findings.isEmpty { checkHistory() }
        clear()
        return findings
    }

    func find(_ finding: String) {
        findings.append(finding)
    }

    func tick() -> Int {
        moment += 1
        return moment
    }

    func note(_ change: History.Change) {
        changes.append((tick(), change))
    }

    func noteDamage(ofValues: Bool) {
        hasDamage = true
        note(.mayUndo)
        decideAnew()
        note(ofValues ? .mayVanish : .mayMiss(true))
    }

    func play(_ act: Story.Act) {
        switch act {
        case .open(let place):
            if places[place] == nil, story.setting.isShared || places.isEmpty { open(place) }
        case .call(let place, let caller, let call):
            if let process = places[place] { begin(call, process, caller) }
        case .hold(let place, let caller, let call, let steps):
            if let process = places[place] { hold(call, process, caller, steps) }
        case .release: release()
        case .run(let steps): _ = simulator.run(steps: steps)
        case .settle: settle()
        case .advance(let milliseconds): advance(by: milliseconds)
        case .kill(let place):
            guard let process = places[place] else { return }
            process.files.kill()
            bury(process)
        case .killIn(let place, let calls):
            guard let process = places[place] else { return }
            process.files.inject { [unowned self, unowned process] number, _ in
                guard number == calls else { return nil }
                process.death = process.death ?? tick()
                return .kill
            }
        case .stop(let place): if let process = places[place] { simulator.stop(process: process.files.process) }
        case .resume(let place): if let process = places[place] { simulator.resume(process: process.files.process) }
        case .powerCut: cutPower()
        case .fill(let isFull): files.limitFreeSpace(to: isFull ? 0 : nil)
        case .damage(let damage): play(damage)
        }
        for process in inPlaces where !process.isLiving { bury(process) }
    }

    private func hold(_ call: Story.Call, _ process: SimulatedProcess, _ caller: Int, _ steps: Int) {
        let (number, group) = (begun.count, begun.count + 1)
        begin(call, process, caller, group: group)
        let end = simulator.steps + UInt64(steps)
        while simulator.steps < end, simulator.run(steps: 1) {}
        hasHeld = !(begun.indices.contains(number) && begun[number].isOver)
        wasHeld = hasHeld
        simulator.hold(group: group)
    }

    func release() {
        simulator.releaseGroups()
        hasHeld = false
    }

    private func advance(by milliseconds: Int) {
        // A call that lasts for a minute takes what others store meanwhile for values from the future.
        if milliseconds > 50_000 {
            settle()
            if all.contains(where: { $0.isLiving && $0.busy > 0 }) { return }
        }
        time.advance(by: .milliseconds(milliseconds))
        note(.time(time.milliseconds))
    }

    /// What was under way in processes that were killed is decided anew: the page that proved the index complete counts
    /// no more.
    private func decideAnew() {
        for process in all where process.death != nil { process.death = tick() }
    }

    private func cutPower() {
        let image = files.imageAfterPowerCut(using: &generator)
        files = files.restarted(with: image)
        decideAnew()
        for process in inPlaces { bury(process) }
        // Evicting is no change that anybody waits for.
        if !story.setting.isPowerSafe || story.setting.countLimit != nil { note(.forgets) }
        // A value that was not synced may be torn; whoever reads it finds out.
        if !story.setting.isPowerSafe { note(.mayVanish) }
        // While the index is being rebuilt.
        note(.mayMiss(true))
    }

    /// Takes a killed process from its place. Its threads stop where they are.
    private func bury(_ process: SimulatedProcess) {
        process.death = process.death ?? tick()
        simulator.stop(process: process.files.process)
        places[process.place] = nil
    }

    private func open(_ place: Int) {
        let process = SimulatedProcess(place, files.another(), time, simulator, story.setting)
        places[place] = process
        all.append(process)
        process.perform(on: 0) { [self] in
            do {
                try process.open()
            } catch {
                guard process.isLiving else { return }
                if !isAllowed(error) { find("opening fails: \(error)") }
                process.closing = tick()
                places[place] = nil
            }
        }
    }

    /// Runs until nothing is ready.
    func settle() {
        // Others may wait for a process that is stopped.
        if hasHeld || all.contains(where: { $0.isLiving && simulator.isStopped(process: $0.files.process) }) {
            _ = simulator.run(steps: 2_000)
            return
        }
        for _ in 0..<Self.longest { if !simulator.run(steps: 1_000) { return } }
        find("it never comes to rest: \(Set(simulator.names).sorted())")
    }

    var inPlaces: [SimulatedProcess] { places.inOrder { $0.key }.map(\.value) }
    var living: [SimulatedProcess] { inPlaces.filter(\.isOpen) }

    /// Whether a call may fail.
    func isAllowed(_ error: any Error) -> Bool {
        guard let error = error as? CacheError else { return false }
        return switch error.code {
        case .noSpace: wasFull || hasDamage && !isEnding
        // Nobody waits for ever for a process that is stopped while it opens the directory.
        case .directoryInUse where story.acts.contains(where: \.isStop): true
        default: hasDamage && !isEnding
        }
    }

    var wasFull: Bool { story.acts.contains(.fill(true)) }

    /// Lets the threads of killed processes end: their calls fail. One that waits for another process may never end.
    private func clear() {
        for process in all { simulator.resume(process: process.files.process) }
        for process in all where process.isLiving && !findings.isEmpty { process.files.kill() }
        _ = simulator.run(steps: 100_000)
        for process in all {
            if simulator.threads(of: process.files.process).isEmpty {
                process.release()
            } else {
                Self.abandoned.withLock { $0.append(process) }
            }
        }
        _ = simulator.run(steps: 100_000)
    }

    private static let abandoned = Lock<[SimulatedProcess]>([])
}

extension Story.Act {
    var isStop: Bool { if case .stop = self { true } else { false } }
}
