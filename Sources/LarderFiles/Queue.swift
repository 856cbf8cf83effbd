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
        let work = { outcome = Swift.Result { () throws(Failure) -> Result in try body() } }
        if let flags { sync(flags: flags, execute: work) } else { sync(execute: work) }
        return try outcome!.get()
    }
}
