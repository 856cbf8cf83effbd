// JSON and dates, without a cache. Built by .ci/sizes.

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
        let data = try JSONEncoder().encode(Note(text: "Hello", written: Date()))
        let note = try JSONDecoder().decode(Note.self, from: data)
        print(note.text, note.written.ISO8601Format())
    }
}
