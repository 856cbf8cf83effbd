// The same through a cache. Built by .ci/sizes.

import Larder

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

struct Note: Codable {
    var text: String
    var written: Date
}

@main
struct Program {
    static func main() async throws {
        let notes = try Cache<Note>(name: "larder-sizes")
        let note = try await notes.value(forKey: "note", ttl: .hours(1)) { Note(text: "Hello", written: Date()) }
        print(note.text, note.written.ISO8601Format())
        try await notes.close()
    }
}
