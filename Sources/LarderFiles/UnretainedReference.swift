/// A reference to an object that another reference keeps alive.
///
/// Using it does not change the reference count, for which many threads with one object would contend.
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
