import Dispatch
import LarderFiles
import Testing

@Suite("References and pauses")
struct SharingPartsTests {
    private final class Object: Sendable {
        let number: Int
        init(_ number: Int) { self.number = number }
    }

    @Test("a replaceable reference has the last object, and keeps the earlier ones")
    func reference() {
        let reference = ReplaceableReference<Object>()
        weak var first: Object?
        do {
            let object = Object(1)
            first = object
            reference.replace(with: object)
        }
        #expect(reference.object.number == 1)
        reference.replace(with: Object(2))
        #expect(reference.object.number == 2)
        #expect(first != nil)
    }

    @Test("readers of a replaceable reference find whole objects")
    func readers() {
        let reference = ReplaceableReference<Object>()
        reference.replace(with: Object(-1))
        DispatchQueue.concurrentPerform(iterations: 4) { thread in
            for number in 0..<500 {
                if thread == 0 { reference.replace(with: Object(number)) }
                #expect((-1..<500).contains(reference.object.number))
            }
        }
        #expect(reference.object.number == 499)
    }

    @Test("waiting ends with the condition, with the time, or with an error")
    func backoff() {
        var calls = 0
        #expect(
            Backoff.wait(milliseconds: 1_000_000) {
                calls += 1
                return calls == 3
            })
        #expect(calls == 3)
        calls = 0
        #expect(
            !Backoff.wait(milliseconds: 2) {
                calls += 1
                return false
            })
        #expect(calls > 2)
        #expect(throws: Errno.io) {
            try Backoff.wait(milliseconds: 1_000_000) { () throws(Errno) in throw .io }
        }
    }
}
