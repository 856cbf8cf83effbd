package import LarderFoundation

/// The name under which the responses of a URL are stored.
package struct CacheKey: Hashable, Sendable {
    /// The URL as it is compared (RFC 9110, section 4.2.3), which is also the tag of its entries.
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
        guard let text = components.string, text.utf8.count + partition.utf8.count <= Self.longest else { return nil }
        self.url = text
        // The length says where a partition ends, whatever it contains, and no URL begins with a digit.
        base = partition.isEmpty ? text : "\(partition.utf8.count):\(partition) \(text)"
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
