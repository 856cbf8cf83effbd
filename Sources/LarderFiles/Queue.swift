public import Dispatch

extension DispatchQueue {
    /// Runs `body` on the queue, waits for it, and hands on its result or its typed error.
    ///
    /// `DispatchQueue.sync` forgets the type of the error; this is the same call with the type kept.
    @inlinable
    package func run<Result, Failure: Error>(
        flags: DispatchWorkItemFlags? = nil, _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        var outcome: Swift.Result<Result, Failure>?
        // Two closures, and none of them in a variable: that one, and what it captures, would be allocated.
        if let flags {
            sync(flags: flags) { outcome = Swift.Result { () throws(Failure) -> Result in try body() } }
        } else {
            sync { outcome = Swift.Result { () throws(Failure) -> Result in try body() } }
        }
        return try outcome!.get()
    }
}
