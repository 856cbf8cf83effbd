/// One call of a child of the sharing storm: an operation on a key, or a removal of several.
package struct SharingCall: Equatable, Sendable {
    package enum Target: Equatable, Sendable {
        case key(Int)
        /// The keys without a namespace, those of the namespace, or both.
        case root
        case namespace
        case everything
    }

    package let operation: ObservedCall.Operation
    package let target: Target

    package init(_ operation: ObservedCall.Operation, _ target: Target) {
        self.operation = operation
        self.target = target
    }

    /// The namespace of every second key.
    package static let namespace = "space"

    /// Returns the namespace of a key.
    package static func namespace(ofKey key: Int) -> String { key % 2 == 0 ? "" : namespace }

    /// Returns the name of a key in its namespace.
    package static func name(ofKey key: Int) -> String { "key \(key)" }

    /// Returns a random call on one of `keys` keys, which stores `value` if it stores anything.
    package static func random(
        keys: Int, value: Int, using generator: inout some RandomNumberGenerator
    ) -> SharingCall {
        let key = Target.key(Int.random(in: 0..<keys, using: &generator))
        return switch Int.random(in: 0..<100, using: &generator) {
        case 0..<45: SharingCall(.get, key)
        case 45..<70: SharingCall(.set(value), key)
        case 70..<78: SharingCall(.remove, key)
        case 78..<86: SharingCall(.setIfAbsent(value), key)
        case 86..<94: SharingCall(.modify(value), key)
        case 94..<96: SharingCall(.renew, key)
        case 96: SharingCall(.clear, .root)
        case 97: SharingCall(.clear, .everything)
        default: SharingCall(.clear, .namespace)
        }
    }

    /// Returns which of `keys` keys the call concerns.
    package func concerned(of keys: Int) -> [Int] {
        switch target {
        case .key(let key): [key]
        case .root: (0..<keys).filter { Self.namespace(ofKey: $0).isEmpty }
        case .namespace: (0..<keys).filter { !Self.namespace(ofKey: $0).isEmpty }
        case .everything: Array(0..<keys)
        }
    }

    /// The operation without its value, for counts.
    package var kind: String { String(describing: operation).prefix { $0 != "(" }.description }
}

/// The text of a call in a log: operation, target and value, separated by spaces.
extension SharingCall: LosslessStringConvertible {
    package var description: String {
        let place =
            switch target {
            case .key(let key): "\(key)"
            case .root: "root"
            case .namespace: "namespace"
            case .everything: "everything"
            }
        let value =
            switch operation {
            case .set(let value), .setIfAbsent(let value), .modify(let value): value
            case .get, .remove, .renew, .clear: 0
            }
        return "\(kind) \(place) \(value)"
    }

    package init?(_ description: String) {
        let words = description.split(separator: " ")
        guard words.count == 3, let value = Int(words[2]) else { return nil }
        switch words[0] {
        case "get": operation = .get
        case "set": operation = .set(value)
        case "setIfAbsent": operation = .setIfAbsent(value)
        case "remove": operation = .remove
        case "modify": operation = .modify(value)
        case "renew": operation = .renew
        case "clear": operation = .clear
        default: return nil
        }
        switch words[1] {
        case "root": target = .root
        case "namespace": target = .namespace
        case "everything": target = .everything
        default:
            guard let key = Int(words[1]) else { return nil }
            target = .key(key)
        }
    }
}
