import Testing

@testable import LarderFiles

@Suite("A hook")
struct HookTests {
    @Test("costs the same however often it was called, and ends after that")
    func often() {
        let count = Lock(0)
        do {
            let hook = Hook()
            hook()
            hook.install { count.withLock { $0 += 1 } }
            // Each call used to add a wrapper around the function, and releasing so many overflowed the stack.
            for _ in 0..<200_000 { hook() }
        }
        #expect(count.withLock { $0 } == 200_000)
    }
}
