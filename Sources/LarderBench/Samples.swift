/// The times of single operations, in nanoseconds; or numbers of bytes.
struct Samples {
    private(set) var values: [UInt64] = []

    mutating func add(_ value: UInt64) {
        values.append(value)
    }

    mutating func add(_ others: Samples) {
        values += others.values
    }

    /// The value below which this part of all samples stays.
    func percentile(_ part: Double) -> Double {
        let sorted = values.sorted()
        if sorted.isEmpty { return 0 }
        return Double(sorted[min(sorted.count - 1, Int(Double(sorted.count) * part))])
    }

    var median: Double { percentile(0.5) }
    var longest: Double { Double(values.max() ?? 0) }
}

/// Runs an operation and adds the time that it took for each of `batch` repetitions in it.
func timing<Result>(_ samples: inout Samples, batch: Int = 1, _ operation: () throws -> Result) rethrows -> Result {
    let clock = ContinuousClock()
    let begun = clock.now
    let result = try operation()
    samples.add(begun.duration(to: clock.now).wholeNanoseconds / UInt64(batch))
    return result
}

/// The same for an async operation.
func timing(_ samples: inout Samples, batch: Int = 1, _ operation: () async throws -> Void) async rethrows {
    let clock = ContinuousClock()
    let begun = clock.now
    try await operation()
    samples.add(begun.duration(to: clock.now).wholeNanoseconds / UInt64(batch))
}

/// Runs two operations in turns, `turn` times each, until each has run `count` times.
func turns(
    _ count: Int, of turn: Int = 20, own: (Int) throws -> Void, floor: (Int) throws -> Void
) rethrows -> (own: Samples, floor: Samples) {
    var samples = (own: Samples(), floor: Samples())
    for start in stride(from: 0, to: count, by: turn) {
        for number in start..<min(start + turn, count) { try timing(&samples.own) { try own(number) } }
        for number in start..<min(start + turn, count) { try timing(&samples.floor) { try floor(number) } }
    }
    return samples
}

extension Duration {
    fileprivate var wholeNanoseconds: UInt64 {
        UInt64(components.seconds) * 1_000_000_000 + UInt64(components.attoseconds / 1_000_000_000)
    }
}
