#if !canImport(Darwin)
    public import Synchronization
#endif

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

    @inlinable
    init(_ reference: Unmanaged<Object>) {
        self.reference = reference
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

/// Objects that are used by their positions, without changes of their reference counts.
@usableFromInline
@frozen
package struct UnretainedObjects<Object: AnyObject & Sendable>: Sendable {
    private let objects: [Object]
    @usableFromInline let references: [UnretainedReference<Object>]

    package init(_ objects: [Object]) {
        self.objects = objects
        references = objects.map { UnretainedReference($0) }
    }

    @inlinable
    package var indices: Range<Int> { references.indices }

    @inlinable
    package subscript(position: Int) -> UnretainedReference<Object> {
        @inline(__always) get { references[position] }
    }
}

/// A reference that is read often and rarely replaced. It keeps every object that it has had, so that a reader needs
/// neither a lock nor a reference count. It must not be read before it has its first object.
///
/// On Apple platforms `Atomic` requires newer systems than Larder does, so a lock replaces it there.
@usableFromInline
package final class ReplaceableReference<Object: AnyObject & Sendable>: Sendable {
    private let objects: Lock<[Object]>
    #if canImport(Darwin)
        @usableFromInline let current: Lock<UInt>
    #else
        @usableFromInline let current: Atomic<UInt>
    #endif

    package init() {
        objects = Lock([])
        #if canImport(Darwin)
            current = Lock(0)
        #else
            current = Atomic(0)
        #endif
    }

    @inlinable
    var pointer: UnsafeRawPointer {
        @inline(__always) get {
            #if canImport(Darwin)
                return UnsafeRawPointer(bitPattern: current.withLock { $0 })!
            #else
                return UnsafeRawPointer(bitPattern: current.load(ordering: .acquiring))!
            #endif
        }
    }

    @inlinable
    package var object: Object {
        @inline(__always) get { Unmanaged<Object>.fromOpaque(pointer).takeUnretainedValue() }
    }

    /// Runs `body` with the object, without counting a reference.
    @inlinable
    @inline(__always)
    package func use<Result>(_ body: (Object) -> Result) -> Result {
        Unmanaged<Object>.fromOpaque(pointer)._withUnsafeGuaranteedRef { body($0) }
    }

    @inlinable
    package var unretained: UnretainedReference<Object> {
        @inline(__always) get { UnretainedReference(.fromOpaque(pointer)) }
    }

    package func replace(with object: Object) {
        objects.withLock { $0.append(object) }
        let bits = UInt(bitPattern: Unmanaged.passUnretained(object).toOpaque())
        #if canImport(Darwin)
            current.withLock { $0 = bits }
        #else
            current.store(bits, ordering: .releasing)
        #endif
    }
}
