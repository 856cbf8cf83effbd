import LarderFiles

/// A call to an owner further up, which installs it once all owners exist.
final class Hook: Sendable {
    private let body = Lock<(@Sendable () -> Void)?>(nil)

    func install(_ body: @escaping @Sendable () -> Void) {
        self.body.withLock { $0 = body }
    }

    func callAsFunction() {
        body.withLock { $0 }?()
    }
}
