/// The times of single operations. Nanoseconds.
struct Samples {
    private(set) var times: [UInt64] = []

    mutating func add(_ time: UInt64) {
        times.append(time)
    }

    mutating func add(_ others: Samples) {
        times += others.times
    }

    /// The time that a part of all stay below.
    func percentile(_ part: Double) -> Double {
        let sorted = times.sorted()
        if sorted.isEmpty { return 0 }
        return Double(sorted[min(sorted.count - 1, Int(Double(sorted.count) * part))])
    }

    var median: Double { percentile(0.5) }
    var longest: Double { Double(times.max() ?? 0) }
}

/// Runs an operation and adds the time that it took for each of `batch` repetitions in it.
func timing(_ samples: inout Samples, batch: Int = 1, _ operation: () throws -> Void) rethrows {
    let clock = ContinuousClock()
    let begun = clock.now
    try operation()
    samples.add(begun.duration(to: clock.now).wholeNanoseconds / UInt64(batch))
}

/// The same for what is async.
func timing(_ samples: inout Samples, batch: Int = 1, _ operation: () async throws -> Void) async rethrows {
    let clock = ContinuousClock()
    let begun = clock.now
    try await operation()
    samples.add(begun.duration(to: clock.now).wholeNanoseconds / UInt64(batch))
}

extension Duration {
    fileprivate var wholeNanoseconds: UInt64 {
        UInt64(components.seconds) * 1_000_000_000 + UInt64(components.attoseconds / 1_000_000_000)
    }
}
