/// A call to an owner in a higher layer, which installs it once all owners exist.
package final class Hook: Sendable {
    /// A struct, because a generic lock converts a bare function at each access, and stores it wrapped once more.
    private struct Body {
        let call: @Sendable () -> Void
    }

    private let body = Lock<Body?>(nil)

    package init() {}

    package func install(_ body: @escaping @Sendable () -> Void) {
        self.body.withLock { $0 = Body(call: body) }
    }

    package func callAsFunction() {
        body.withLock { $0 }?.call()
    }
}
