import Foundation
import LarderFiles
import LarderTestSupport

@testable import LarderTesting

/// Which calls of a step are points of their own.
final class CallNotes: Sendable {
    private let page: MemoryFileSystem.MappedFile?
    private let state: Lock<State>

    private struct State {
        var content: [UInt8]
        var points: [Int] = []
        /// Whether each point is an access in a row of such.
        var isAccess: [Bool] = []
        var last: MemoryFileSystem.Operation?
        /// The accesses that have raised the epoch.
        var publishing: [Int] = []
    }

    init(_ page: MemoryFileSystem.MappedFile?) {
        self.page = page
        state = Lock(State(content: page?.bytes ?? []))
    }

    func note(_ call: Int, _ operation: MemoryFileSystem.Operation) {
        state.withLock { state in
            let last = state.last
            state.last = operation
            let isChanged =
                switch last {
                case nil, .openDirectory, .create, .write, .truncate, .makeDirectory, .rename, .remove: true
                case .access: hasChanged(&state, in: call - 1)
                case .open, .status, .read, .allocate, .sync, .list, .lock: false
                }
            // A write is torn.
            guard isChanged || operation == .write else { return }
            state.points.append(call)
            state.isAccess.append(operation == .access)
        }
    }

    /// Whether the last access has changed the page.
    private func hasChanged(_ state: inout State, in call: Int) -> Bool {
        guard let page else { return true }
        if memcmp(page.start, state.content, state.content.count) == 0 { return false }
        // The word of the epoch.
        if memcmp(page.start + 8, Array(state.content[64..<72]), 8) != 0 { state.publishing.append(call) }
        state.content = page.bytes
        return true
    }

    var publishing: [Int] { state.withLock { $0.publishing } }

    /// The points, without those of `publishing`. Of a long row of accesses, such as those that begin the page, only some.
    var points: [Int] {
        state.withLock { state in
            var points: [Int] = []
            var row: [Int] = []
            for (point, isAccess) in zip(state.points, state.isAccess) {
                if isAccess {
                    row.append(point)
                } else {
                    points += Self.thinned(row) + [point]
                    row = []
                }
            }
            points += Self.thinned(row)
            points.removeAll { state.publishing.contains($0) }
            // Of very many, every second or third.
            let step = max(1, points.count / 20)
            return points.indices.filter { $0 % step == 0 }.map { points[$0] }
        }
    }

    private static func thinned(_ row: [Int]) -> [Int] {
        if row.count <= 20 { return row }
        let middle = row.dropFirst(6).dropLast(6)
        let step = max(1, middle.count / 8)
        return row.prefix(6) + stride(from: middle.startIndex, to: middle.endIndex, by: step).map { middle[$0] }
            + row.suffix(6)
    }
}

/// Ends the tests when one hangs, and says where.
final class Watchdog {
    private let place = Lock("at the beginning")
    private let timer = DispatchSource.makeTimerSource(queue: DispatchQueue(label: "watchdog"))

    init(_ name: String) {
        timer.setEventHandler { [place] in
            fatalError("hangs: \(name), \(place.withLock { $0 })")
        }
        timer.resume()
    }

    deinit {
        timer.cancel()
    }

    func note(_ text: String) {
        place.withLock { $0 = text }
        timer.schedule(deadline: .hang)
    }
}
