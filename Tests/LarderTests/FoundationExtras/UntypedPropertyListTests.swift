#if FoundationExtras || canImport(Darwin)
    import Foundation
    import LarderTesting
    import Testing

    @testable import Larder

    @Suite("Property lists of any type")
    struct UntypedPropertyListTests {
        @Test("property lists are stored in the binary format and come back with their types")
        func roundTrip() throws {
            let cache = try World().open()
            try cache.setPropertyList(PropertyListTests.sample, forKey: "k")
            #expect(cache.data(forKey: "k")?.prefix(8) == data("bplist00"))
            let value = cache.propertyList(forKey: "k")
            try PropertyListTests.expectSample(value)
            let date = (value as? [String: Any])?["date"] as? Date
            #expect(date == Date(timeIntervalSince1970: 1_763_632_800.123))
            for bare in ["text", 5, 2.5, true, Data([0])] as [any Hashable & Sendable] {
                try cache.setPropertyList(bare, forKey: "bare")
                #expect(cache.propertyList(forKey: "bare").map { "\($0)" } == "\(bare)")
            }
        }

        @Test("a value that is not a property list is refused, and the old one is kept")
        func unencodable() throws {
            let cache = try World().open()
            try cache.setPropertyList(["a": 1], forKey: "k")
            var deep: Any = "x"
            for _ in 0..<200 { deep = [deep] }
            for value in [["a": NSObject()], [1: "a"], deep, Optional<Int>.none as Any] as [Any] {
                #expect(code { try cache.setPropertyList(value, forKey: "k") } == .unencodable)
            }
            #expect((cache.propertyList(forKey: "k") as? [String: Int]) == ["a": 1])
        }
    }
#endif
