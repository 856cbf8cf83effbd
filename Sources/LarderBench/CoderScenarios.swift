import Foundation
import Larder

/// Compares the time of each coder with that of Foundation's bare JSON encoder and decoder.
extension Scenario {
    private struct Article: Codable, Sendable {
        var id = 42
        var title = "What a coder costs"
        var authors = ["Ann", "Ben", "Zoë"]
        var published = Date(timeIntervalSince1970: 1_763_640_000)
        var scores = (0..<24).map { Double($0) * 1.5 }
        var paragraphs = (0..<10).map { "The paragraph with the number \($0), of about as many words as others." }
        var links: [String: String] = ["home": "https://example.com/", "next": "https://example.com/43"]
    }

    static var coders: [Scenario] {
        var scenarios = [
            scenario("JSON", Coder<Article>.json, Article(), target: .ratio(1.25)),
            scenario("versioned JSON", Coder<Article>.json.versioned(3), Article(), target: .ratio(1.25)),
            scenario("property list", Coder<Article>.propertyList, Article()),
            scenario("bytes", Coder<[UInt8]>.bytes, [UInt8](repeating: 7, count: 1 << 10)),
        ]
        #if Zlib || canImport(Compression)
            scenarios.append(scenario("compressed JSON", Coder<Article>.json.compressed(), Article()))
        #endif
        return scenarios.flatMap(\.self)
    }

    /// Encoding and decoding.
    private static func scenario<Value: Sendable>(
        _ name: String, _ coder: Coder<Value>, _ value: Value, target: Target = .none
    ) -> [Scenario] {
        let batch = 100
        let article = Article()
        return [
            Scenario(name: "encode \(name)", unit: .us, floor: "JSONEncoder", target: target) { _ in
                Run(round: { _ in
                    var samples = (own: Samples(), floor: Samples())
                    for _ in 0..<20 {
                        try timing(&samples.own, batch: batch) {
                            for _ in 0..<batch { _ = try coder.encoded(value) }
                        }
                        try timing(&samples.floor, batch: batch) {
                            let encoder = JSONEncoder()
                            for _ in 0..<batch { _ = try encoder.encode(article) }
                        }
                    }
                    return samples
                })
            },
            Scenario(name: "decode \(name)", unit: .us, floor: "JSONDecoder", target: target) { _ in
                let (_, decode) = try coder.encoded(value)
                let data = try JSONEncoder().encode(article)
                return Run(round: { _ in
                    var samples = (own: Samples(), floor: Samples())
                    for _ in 0..<20 {
                        try timing(&samples.own, batch: batch) {
                            for _ in 0..<batch { _ = try decode() }
                        }
                        try timing(&samples.floor, batch: batch) {
                            let decoder = JSONDecoder()
                            for _ in 0..<batch { _ = try decoder.decode(Article.self, from: data) }
                        }
                    }
                    return samples
                })
            },
        ]
    }
}
