package import Foundation
package import Larder
package import LarderTesting

/// One step of the kill test's child, and its announcement in one line.
package enum KillChange: Equatable, Sendable, CustomStringConvertible {
    case set(key: String, version: String, size: Int)
    /// The same, copied from a file.
    case copy(key: String, version: String, size: Int)
    case remove(key: String)
    case renew(key: String, seconds: Int)
    /// Removes everything without a namespace; see `namespace(of:)`.
    case clear
    case clearNamespaces
    /// Removes everything with a tag and without a namespace; see `tag(of:)`.
    case clearTag(String)
    /// Expires a key, everything without a namespace, or everything with a tag and without a namespace.
    case expire(key: String)
    case expireAll
    case expireTag(String)
    case flush

    package static func random(number: Int, seed: UInt64, using generator: inout SeededGenerator) -> KillChange {
        let key = "key \(Int.random(in: 0..<40, using: &generator))"
        switch Int.random(in: 0..<1000, using: &generator) {
        case 0..<50:
            let size = [5_000, 300_000, 400_000].randomElement(using: &generator) ?? 0
            return .copy(key: key, version: "\(seed).\(number)", size: size)
        case 50..<700:
            let size = [0, 30, 500, 500, 5_000, 5_000, 70_000, 400_000].randomElement(using: &generator) ?? 0
            return .set(key: key, version: "\(seed).\(number)", size: size)
        case 700..<800: return .remove(key: key)
        case 800..<845: return .expire(key: key)
        case 845..<847: return .expireAll
        case 847..<850: return .expireTag("tag\(number % 4)")
        case 850..<980: return .renew(key: key, seconds: Int.random(in: 10_000...1_000_000, using: &generator))
        case 980..<983: return .clear
        case 983..<985: return .clearNamespaces
        case 985..<990: return .clearTag("tag\(number % 4)")
        default: return .flush
        }
    }

    /// Bytes of a value in a segment besides its payload, at most.
    package static let longestRest = 500

    /// The configuration of the child and of the test: small groups, and segments so short that many are cleaned.
    package static func configuration(inlineThreshold: Int, isShared: Bool) -> DiskCache.Configuration {
        var configuration = DiskCache.Configuration()
        configuration.sharing = isShared ? .processes : .exclusive
        configuration.entriesPerGroup = 4
        configuration.inlineThreshold = inlineThreshold
        configuration.segmentLength = max(16 << 10, inlineThreshold)
        return configuration
    }

    /// The namespace of a key: every fourth key has one.
    package static func namespace(of key: String) -> String {
        (key.split(separator: " ").last.flatMap { Int($0) } ?? 0) % 4 == 0 ? "space" : ""
    }

    /// The bytes of a version of a key: the same in the child and in the test.
    package static func payload(key: String, version: String, size: Int) -> Data {
        let head = Data("\(key) \(version) ".utf8)
        var bytes = head
        while bytes.count < size { bytes.append(bytes) }
        return bytes.prefix(max(size, head.count))
    }

    /// The tag of a version.
    package static func tag(ofVersion version: some StringProtocol) -> String {
        "tag\((version.split(separator: ".").last.flatMap { Int($0) } ?? 0) % 4)"
    }

    /// The same, extracted from the stored bytes.
    package static func tag(of payload: Data) -> String {
        let words = String(decoding: payload.prefix(100), as: UTF8.self).split(separator: " ")
        return words.count > 2 ? tag(ofVersion: words[2]) : ""
    }

    package var description: String {
        switch self {
        case .set(let key, let version, let size): "set|\(key)|\(version)|\(size)"
        case .copy(let key, let version, let size): "copy|\(key)|\(version)|\(size)"
        case .remove(let key): "remove|\(key)"
        case .renew(let key, let seconds): "renew|\(key)|\(seconds)"
        case .clear: "clear"
        case .clearNamespaces: "clearNamespaces"
        case .clearTag(let tag): "clearTag|\(tag)"
        case .expire(let key): "expire|\(key)"
        case .expireAll: "expireAll"
        case .expireTag(let tag): "expireTag|\(tag)"
        case .flush: "flush"
        }
    }

    package init?(_ line: Substring) {
        let parts = line.split(separator: "|").map(String.init)
        switch (parts.first, parts.count) {
        case ("set", 4), ("copy", 4):
            guard let size = Int(parts[3]) else { return nil }
            self =
                parts[0] == "set"
                ? .set(key: parts[1], version: parts[2], size: size)
                : .copy(key: parts[1], version: parts[2], size: size)
        case ("remove", 2): self = .remove(key: parts[1])
        case ("renew", 3):
            guard let seconds = Int(parts[2]) else { return nil }
            self = .renew(key: parts[1], seconds: seconds)
        case ("clear", 1): self = .clear
        case ("clearNamespaces", 1): self = .clearNamespaces
        case ("clearTag", 2): self = .clearTag(parts[1])
        case ("expire", 2): self = .expire(key: parts[1])
        case ("expireAll", 1): self = .expireAll
        case ("expireTag", 2): self = .expireTag(parts[1])
        case ("flush", 1): self = .flush
        default: return nil
        }
    }
}
