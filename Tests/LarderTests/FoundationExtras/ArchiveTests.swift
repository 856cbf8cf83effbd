#if FoundationExtras || canImport(Darwin)
    import Foundation
    import LarderTesting
    import Testing

    @testable import Larder

    /// A user's class with secure coding.
    final class Note: NSObject, NSSecureCoding {
        static var supportsSecureCoding: Bool { true }

        let text: String
        let tags: [String]

        init(text: String, tags: [String]) {
            self.text = text
            self.tags = tags
        }

        init?(coder: NSCoder) {
            guard let text = coder.decodeObject(of: NSString.self, forKey: "text") else { return nil }
            self.text = "\(text)"
            let tags = coder.decodeObject(of: [NSArray.self, NSString.self], forKey: "tags") as? [Any]
            self.tags = tags?.map { "\($0)" } ?? []
        }

        func encode(with coder: NSCoder) {
            coder.encode(NSString(string: text), forKey: "text")
            coder.encode(NSArray(array: tags.map { NSString(string: $0) }), forKey: "tags")
        }
    }

    @Suite("Secure archives")
    struct ArchiveTests {
        @Test("custom objects, collections and plain values are archived and read")
        func roundTrip() throws {
            let cache = try World().open()
            try cache.setArchivedObject(Note(text: "hello", tags: ["a", "b"]), forKey: "note")
            let note = cache.archivedObject(Note.self, forKey: "note")
            #expect(note?.text == "hello" && note?.tags == ["a", "b"])
            let inner = NSDictionary(dictionary: ["k": NSArray(array: [NSNumber(value: 1), NSString("x")])])
            try cache.setArchivedObject(NSArray(array: [inner, NSDate(timeIntervalSince1970: 5)]), forKey: "array")
            let array = try #require(cache.archivedObject(NSArray.self, forKey: "array"))
            #expect(array.count == 2)
            try cache.setArchivedObject(NSString("text"), forKey: "string")
            #expect(cache.archivedObject(NSString.self, forKey: "string") == NSString("text"))
            try cache.setArchivedObject(NSNumber(value: 7), forKey: "number")
            #expect(cache.archivedObject(NSNumber.self, forKey: "number")?.intValue == 7)
        }

        @Test("an archive of another class is a miss, reported and kept")
        func otherClass() throws {
            let log = EventLog()
            let world = World { $0.onEvent = log.note }
            let cache = try world.open()
            try cache.setArchivedObject(NSArray(array: [NSString("a")]), forKey: "k")
            #expect(cache.archivedObject(Note.self, forKey: "k") == nil)
            #expect(cache.archivedObject(NSString.self, forKey: "k") == nil)
            #expect(log.events(of: cache).map { $0.error?.code } == [.undecodable, .undecodable])
            #expect(cache.archivedObject(NSArray.self, forKey: "k")?.count == 1)
        }

        @Test(
            "anything but an archive is a miss", arguments: ["", "hello", "bplist00", "{}", "<plist><dict/></plist>"])
        func garbage(text: String) throws {
            let cache = try World().open()
            try cache.setString(text, forKey: "k")
            #expect(cache.archivedObject(NSString.self, forKey: "k") == nil)
            try cache.setPropertyList(["$archiver": "NSKeyedArchiver", "$objects": ["$null"]], forKey: "k")
            #expect(cache.archivedObject(NSString.self, forKey: "k") == nil)
            #expect(cache.hasValue(forKey: "k"))
        }

        @Test("an archive truncated anywhere is a miss")
        func cut() throws {
            let cache = try World { $0.saveDelay = .seconds(100) }.open()
            try cache.setArchivedObject(Note(text: "hello", tags: ["a"]), forKey: "whole")
            let bytes = try #require(cache.data(forKey: "whole"))
            for length in 0..<bytes.count {
                try cache.setData(bytes.prefix(length), forKey: "k")
                #expect(cache.archivedObject(Note.self, forKey: "k") == nil)
            }
        }

        @Test("an archive's classes and references are checked before Foundation reads it")
        func inspection() throws {
            let bytes = try NSKeyedArchiver.archivedData(
                withRootObject: NSArray(array: [NSDate(), Note(text: "x", tags: [])]), requiringSecureCoding: true)
            let archive = try #require(KeyedArchive(bytes))
            #expect(!archive.isReadable(as: NSArray.self), "a collection allows only plain values")
            #expect(!archive.isReadable(as: Note.self))
            let note = try NSKeyedArchiver.archivedData(
                withRootObject: Note(text: "x", tags: []), requiringSecureCoding: true)
            #expect(KeyedArchive(note)?.isReadable(as: Note.self) == true)
            #expect(KeyedArchive(note)?.isReadable(as: NSObject.self) == true)
            #expect(KeyedArchive(note)?.isReadable(as: NSArray.self) == false)
        }

        @Test("the coder returns the object that it encoded, and refuses other bytes")
        func coder() throws {
            let archive = Coder<NSUUID>.archive
            let uuid = NSUUID()
            #expect(try archive.value(of: archive.bytes(of: uuid)) == uuid)
            #expect(throws: (any Error).self) { try archive.value(of: Coder<NSString>.archive.bytes(of: "text")) }
            #expect(throws: (any Error).self) { try archive.value(of: Data("no archive".utf8)) }
        }
    }
#endif
