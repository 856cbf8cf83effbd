/// A reference to an object that somebody else keeps alive.
///
/// Using it does not count a reference: when many threads use one object all the time, they contend for its reference
/// count.
@usableFromInline
@frozen
package struct UnretainedReference<Object: AnyObject & Sendable>: Sendable {
    @usableFromInline let reference: Unmanaged<Object>

    @inlinable
    package init(_ object: Object) {
        reference = .passUnretained(object)
    }

    /// Runs `body` with the object.
    @inlinable
    @inline(__always)
    package func use<Result, Failure: Error>(_ body: (Object) throws(Failure) -> Result) throws(Failure) -> Result {
        try reference._withUnsafeGuaranteedRef { object in
            Swift.Result { () throws(Failure) -> Result in try body(object) }
        }.get()
    }
}
