import Foundation

/// The share of crash points, faults and damaged bytes that one run tries: all of them would take minutes.
///
/// One of seventeen, or of as many as `LARDER_SAMPLE` says; `LARDER_SAMPLE=1` tries all. Each run begins at another one, so
/// that all are tried in the course of time.
enum Sample {
    private static let step = ProcessInfo.processInfo.environment["LARDER_SAMPLE"].flatMap(Int.init) ?? 17
    private static let first = Int.random(in: 0..<step)

    /// Numbers of calls, without end.
    static var calls: some Sequence<Int> { sequence(first: first + 1) { $0 + step } }

    /// Some elements, in order, and the last one.
    static func of<Element>(_ all: some Collection<Element>) -> [Element] {
        all.enumerated().filter { $0.offset % step == first || $0.offset == all.count - 1 }.map(\.element)
    }

    /// How many of a number are tried, at least.
    static func least(of count: Int) -> Int { count / step - 1 }
}
