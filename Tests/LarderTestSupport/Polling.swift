import Foundation

/// Returns when a condition holds that other tasks, threads or processes bring about. Returns false instead when the task
/// is cancelled, or after ten minutes: only a hang takes so long.
///
/// It yields at first, and then sleeps a millisecond between two looks: dozens of tests that wait at a time would otherwise
/// take the processors from those for whom they wait.
@discardableResult
package func eventually(_ condition: () async throws -> Bool) async rethrows -> Bool {
    let end = ContinuousClock.now + .seconds(600)
    var looks = 0
    while try await !condition() {
        if Task.isCancelled || ContinuousClock.now > end { return false }
        looks += 1
        if looks < 20 { await Task.yield() } else { try? await Task.sleep(for: .milliseconds(1)) }
    }
    return true
}
