/// A call to an owner in a higher layer, which installs it once all owners exist.
package final class Hook: Sendable {
    private let body = Lock<(@Sendable () -> Void)?>(nil)

    package init() {}

    package func install(_ body: @escaping @Sendable () -> Void) {
        self.body.withLock { $0 = body }
    }

    package func callAsFunction() {
        body.withLock { $0 }?()
    }
}
