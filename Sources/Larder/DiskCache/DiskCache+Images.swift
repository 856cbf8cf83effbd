#if canImport(UIKit) && !os(watchOS)
    public import UIKit

    extension DiskCache {
        /// Returns a stored image, in its scale; nil for a miss. O(size).
        public func image(forKey key: String) -> UIImage? {
            archivedObject(UIImage.self, forKey: key)
        }

        /// Stores an image as a secure archive, which keeps its scale. See `setData(_:forKey:ttl:metadata:tags:)`.
        public func setImage(
            _ image: UIImage, forKey key: String, ttl: TimeToLive = .default, metadata: [String: String] = [:],
            tags: [String] = []
        ) throws(CacheError) {
            try setArchivedObject(image, forKey: key, ttl: ttl, metadata: metadata, tags: tags)
        }
    }
#elseif canImport(AppKit)
    public import AppKit

    extension DiskCache {
        /// Returns a stored image; nil for a miss. O(size).
        public func image(forKey key: String) -> NSImage? {
            decoded(key, as: nil, "an image") { NSImage(data: $0) }
        }

        /// Stores an image as PNG. See `setData(_:forKey:ttl:metadata:tags:)`.
        ///
        /// - Throws: Also `.unencodable` when it has no PNG form.
        public func setImage(
            _ image: NSImage, forKey key: String, ttl: TimeToLive = .default, metadata: [String: String] = [:],
            tags: [String] = []
        ) throws(CacheError) {
            guard let png = image.png else {
                throw CacheError(code: .unencodable, message: "The image has no PNG form.")
            }
            try setData(png, forKey: key, ttl: ttl, metadata: metadata, tags: tags)
        }
    }

    extension NSImage {
        /// Nil when the image has no such form.
        var png: Data? {
            tiffRepresentation.flatMap { NSBitmapImageRep(data: $0) }?.representation(using: .png, properties: [:])
        }
    }
#endif
