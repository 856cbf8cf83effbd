extension TestWorld {
    /// Makes one call fail: the `number`-th from now, counted from 1 among `calls`. A failed write may have written a
    /// part, as on a real disk.
    ///
    /// - Parameters:
    ///   - number: Which call. 1: the next.
    ///   - calls: The calls that count. Default: all.
    ///   - fault: The error. Default: `.io`.
    public func failCall(_ number: Int, of calls: FileCalls = .all, with fault: TestFault = .io) {
        faults.add(.fail(fault.error), in: calls, number: number)
    }

    /// Makes every call fail from now on, until ``endFaults()`` or a restart.
    ///
    /// - Parameters:
    ///   - calls: The calls that fail. Default: all.
    ///   - fault: The error. Default: `.io`.
    public func failCalls(_ calls: FileCalls = .all, with fault: TestFault = .io) {
        faults.add(.fail(fault.error), in: calls)
    }

    /// Makes the disk work again: cancels all faults of ``failCall(_:of:with:)``, ``failCalls(_:with:)`` and
    /// ``kill(inCall:of:)``. A full disk stays full.
    public func endFaults() {
        faults.removeAll()
    }

    /// The number of calls that have failed as arranged, since the world began or the last restart. Zero after a test's
    /// last step means that its n-th call was never made.
    public var failedCallCount: Int { faults.failures }

    /// Whether the disk has no room. Setting it to true leaves no block of 4 KiB free: a write that needs one fails
    /// with `.noSpace`, until files are removed. Setting it to false makes the disk unlimited. Default: false.
    public var isDiskFull: Bool {
        get { files.freeSpace < 4096 }
        set { files.limitFreeSpace(to: newValue ? 0 : nil) }
    }

    /// The bytes that are free on the disk. Setting it makes the disk larger or smaller; a file takes whole blocks of
    /// 4 KiB. Default: practically unlimited.
    public var freeSpace: Int {
        get { max(0, files.freeSpace) }
        set { files.limitFreeSpace(to: newValue) }
    }

    /// The file-system calls that caches have made, since the world began or the last restart.
    public var fileCalls: FileCallCounts { FileCallCounts(counts: files.counts) }
}
