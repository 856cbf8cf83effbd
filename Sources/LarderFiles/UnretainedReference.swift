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

/// A reference that is read often and rarely replaced. It keeps every object that it has had, so that a reader needs
/// neither a lock nor a reference count.
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

    package init(_ object: Object?) {
        objects = Lock(object.map { [$0] } ?? [])
        #if canImport(Darwin)
            current = Lock(Self.bits(object))
        #else
            current = Atomic(Self.bits(object))
        #endif
    }

    private static func bits(_ object: Object?) -> UInt {
        object.map { UInt(bitPattern: Unmanaged.passUnretained($0).toOpaque()) } ?? 0
    }

    @inlinable
    var bits: UInt {
        @inline(__always) get {
            #if canImport(Darwin)
                return current.withLock { $0 }
            #else
                return current.load(ordering: .acquiring)
            #endif
        }
    }

    /// True when there is one.
    @inlinable
    package var isSet: Bool {
        @inline(__always) get { bits != 0 }
    }

    /// Nil when there is none.
    @inlinable
    package var object: Object? {
        @inline(__always) get {
            UnsafeRawPointer(bitPattern: bits).map { Unmanaged<Object>.fromOpaque($0).takeUnretainedValue() }
        }
    }

    /// Runs `body` with the object, without counting a reference; nil when there is none.
    @inlinable
    @inline(__always)
    package func use<Result>(_ body: (Object) -> Result) -> Result? {
        guard let pointer = UnsafeRawPointer(bitPattern: bits) else { return nil }
        return Unmanaged<Object>.fromOpaque(pointer)._withUnsafeGuaranteedRef { body($0) }
    }

    /// Nil when there is none.
    @inlinable
    package var unretained: UnretainedReference<Object>? {
        @inline(__always) get {
            UnsafeRawPointer(bitPattern: bits).map { UnretainedReference(.fromOpaque($0)) }
        }
    }

    package func replace(with object: Object?) {
        objects.withLock { if let object { $0.append(object) } }
        #if canImport(Darwin)
            current.withLock { $0 = Self.bits(object) }
        #else
            current.store(Self.bits(object), ordering: .releasing)
        #endif
    }
}
