import LarderFiles

/// Bytes of dead entries. They are counted in memory, and noted in the headers of segments from time to time: a process
/// that is killed forgets some, and a segment is cleaned later.
final class DeadBytes: Sendable {
    /// Bytes. Other processes do not know of what this one has not noted: of 64, no more than a short segment.
    private static let notingDistance = 64 << 10

    private let state = Lock(State())
    /// Set while more bytes are dead than half of the others, and those of a segment.
    let isBehind = Flag()

    private struct State {
        /// Those that the headers do not count yet.
        var counts: [UInt64: Int] = [:]
        /// Those that have died since segments were last looked through; nil: they have not been.
        var newlyDead: Int?
        /// Those that may die before cleaning is behind.
        var allowance = Int.max
    }

    /// Counts bytes of a segment; true when it is time to note them.
    func add(_ bytes: Int, in number: UInt64) -> Bool {
        state.withLock { state in
            let count = state.counts[number, default: 0] + bytes
            state.counts[number] = count
            if let newlyDead = state.newlyDead { state.newlyDead = newlyDead + bytes }
            if state.allowance != .max { state.allowance -= bytes }
            if state.allowance < 0 { isBehind.set() }
            return count >= Self.notingDistance
        }
    }

    func count(in number: UInt64) -> Int { state.withLock { $0.counts[number] ?? 0 } }

    /// The count of a segment, which is about to be noted.
    func take(_ number: UInt64) -> Int { state.withLock { $0.counts.removeValue(forKey: number) ?? 0 } }

    func forget(_ number: UInt64) { _ = take(number) }

    /// The segments with counts.
    var numbers: [UInt64] { state.withLock { $0.counts.keys.sorted() } }

    func setAllowance(_ bytes: Int) {
        state.withLock { $0.allowance = bytes }
        isBehind.set(bytes < 0)
    }

    func raiseAllowance(to bytes: Int) {
        raiseAllowance { max($0, bytes) }
    }

    /// Bytes that are being cleaned are dead no longer.
    func raiseAllowance(by bytes: Int) {
        raiseAllowance { $0 == .max ? $0 : $0 + bytes }
    }

    private func raiseAllowance(_ raise: (Int) -> Int) {
        let mayGoOn = state.withLock { state in
            let before = state.allowance
            state.allowance = raise(before)
            return state.allowance > before && state.allowance >= 0
        }
        if mayGoOn { isBehind.set(false) }
    }

    /// The next call of ``mayBeDirty(after:)`` returns true.
    func lookAgain() { state.withLock { $0.newlyDead = nil } }

    /// True at first, and when so many bytes have died since it was last true.
    func mayBeDirty(after bytes: Int) -> Bool {
        state.withLock { state in
            if let count = state.newlyDead, count < bytes { return false }
            state.newlyDead = 0
            return true
        }
    }
}
