package import LarderFoundation

/// The name under which the responses of a URL are stored.
package struct CacheKey: Hashable, Sendable {
    /// The URL as it is compared (RFC 9110, section 4.2.3), which is also the tag of its entries. Paths are not
    /// resolved: `/a/../b` is sent as it is, too.
    package let url: String
    /// The key of its entry without a variant.
    package let base: String

    /// UTF-8 bytes of the longest key. Requests with a longer one are not cached.
    private static let longest = 16 << 10

    /// Nil for a URL that cannot be a key.
    ///
    /// - Parameters:
    ///   - url: An `http` or `https` URL. Its fragment and userinfo are no part of the key.
    ///   - partition: Separates the responses of several accounts.
    package init?(_ url: URL, partition: String) {
        guard var components = URLComponents(url: url, resolvingAgainstBaseURL: true), let origin = Origin(url) else {
            return nil
        }
        (components.fragment, components.user, components.password) = (nil, nil, nil)
        components.scheme = origin.scheme
        components.encodedHost = components.encodedHost?.lowercased()
        if origin.port == (origin.scheme == "https" ? 443 : 80) { components.port = nil }
        if components.percentEncodedPath.isEmpty { components.percentEncodedPath = "/" }
        guard let text = components.string.map(Self.normalized),
            text.utf8.count + partition.utf8.count <= Self.longest
        else { return nil }
        self.url = text
        // The length says where a partition ends, whatever it contains, and no URL begins with a digit.
        base = partition.isEmpty ? text : "\(partition.utf8.count):\(partition) \(text)"
    }

    /// The text with each escape in one form: unreserved characters as they are, and capital digits (RFC 3986, section
    /// 6.2.2).
    private static func normalized(_ text: String) -> String {
        guard text.utf8.contains(UInt8(ascii: "%")) else { return text }
        var (bytes, rest) = ([UInt8](), Array(text.utf8)[...])
        while let byte = rest.popFirst() {
            let digits = String(decoding: rest.prefix(2), as: UTF8.self).uppercased()
            guard byte == UInt8(ascii: "%"), digits.utf8.count == 2, digits.allSatisfy(\.isHexDigit),
                let code = UInt8(digits, radix: 16)
            else {
                bytes.append(byte)
                continue
            }
            bytes += isUnreserved(code) ? [code] : [byte] + Array(digits.utf8)
            rest = rest.dropFirst(2)
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func isUnreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "-._~".utf8.contains(byte)
        }
    }

    /// The key of a variant; nil when the fields that select it are too long.
    package func variant(_ variant: HTTPVariant) -> String? {
        if variant.names.isEmpty { return base }
        let key = "\(base)\n\(variant.text)"
        return key.utf8.count <= Self.longest ? key : nil
    }
}

extension URL {
    /// The URL without user and password.
    var withoutUserinfo: URL {
        guard user != nil || password != nil, var components = URLComponents(url: self, resolvingAgainstBaseURL: true)
        else { return self }
        (components.user, components.password) = (nil, nil)
        return components.url ?? self
    }
}
