import Foundation
import LarderTestSupport
import LarderTesting
import Testing

/// The share of crash points, faults, damaged bytes and seeds that one run tries: all of them would take minutes.
///
/// One of thirty-one crash points, or of as many as `LARDER_SAMPLE` says; `LARDER_SAMPLE=1` tries everything. The seed of
/// the run decides which, so all are tried in the course of time.
enum Sample {
    private static let step = ProcessInfo.processInfo.environment["LARDER_SAMPLE"].flatMap(Int.init) ?? 31
    private static let first = Int(RunSeed.value % UInt64(step))

    /// Whether this run tries everything.
    static var isComplete: Bool { step == 1 }

    /// Numbers of calls, without end.
    static var calls: some Sequence<Int> { sequence(first: first + 1) { $0 + step } }

    /// Some elements, in order, and the last one.
    static func of<Element>(_ all: some Collection<Element>) -> [Element] {
        all.enumerated().filter { $0.offset % step == first || $0.offset == all.count - 1 }.map(\.element)
    }

    /// A number of elements, in order; all of them when everything is tried.
    static func few<Element>(
        _ count: Int, of all: some Collection<Element>, for label: String = "", file: String = #fileID,
        line: Int = #line
    ) -> [Element] {
        if isComplete { return Array(all) }
        var generator = RunSeed.generator("\(line)\(label)", file: file, function: "few")
        return all.enumerated().shuffled(using: &generator).prefix(count)
            .sorted { $0.offset < $1.offset }.map(\.element)
    }

    /// At most this number of elements, evenly spread; all of them when everything is tried.
    static func spread<Element>(_ count: Int, over all: [Element]) -> [Element] {
        if isComplete || all.count <= count { return all }
        return (0..<count).map { all[($0 * all.count + Int(RunSeed.value % UInt64(all.count))) / count] }
    }

    /// How often something is repeated, or how large it is: in a run that tries everything, and in others.
    static func size(_ complete: Int, usually: Int) -> Int { isComplete ? complete : usually }

    /// Some crash points, in order. Of a few, one is tried.
    static func points(_ all: [Int]) -> [Int] {
        let some = all.indices.filter { $0 % step == first }
        return (some.isEmpty && !all.isEmpty ? [first % all.count] : some).map { all[$0] }
    }
}

extension Trait where Self == ConditionTrait {
    /// For a test that takes seconds and rarely finds anything: one run of eight has it, and each that tries everything.
    static var rare: Self {
        .enabled("it is tried in one run of eight", { Sample.isComplete || RunSeed.value % 8 == 0 })
    }
}
